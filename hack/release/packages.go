package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"text/template"
)

// downloads is the URL prefix of a release's files, without the version.
const downloads = "https://github.com/kyma-pull/kyma-pull/releases/download/v"

// packaged is a program's archive for one platform.
type packaged struct {
	OS, Arch, URL, Sum string
	// CPU is Homebrew's name of the architecture.
	CPU string
}

// writePackages writes a Homebrew formula for each program, and a krew manifest for the publisher's commands as a
// kubectl plugin.
//
// Source: Homebrew Formula Cookbook; krew.sigs.k8s.io/docs/developer-guide/plugin-manifest.
func (r *release) writePackages() error {
	sums := map[string]string{}
	if err := r.forEachFile(func(name, sum string) { sums[name] = sum }); err != nil {
		return err
	}
	archives := map[string][]packaged{}
	for _, program := range programs {
		for _, p := range r.platforms {
			name := archiveFile(program, r.version, p)
			cpu := map[string]string{"amd64": "intel", "arm64": "arm"}[p.arch]
			archives[program] = append(archives[program], packaged{
				p.os, p.arch, downloads + r.version + "/" + name, sums[name], cpu,
			})
		}
	}
	for name, text := range map[string]string{
		"kcp-publisher.rb": strings.ReplaceAll(formula, "CLASS", "KcpPublisher"),
		"skr-agent.rb":     strings.ReplaceAll(formula, "CLASS", "SkrAgent"), krewFile: krewManifest,
	} {
		program := strings.TrimSuffix(name, ".rb")
		if name == krewFile {
			program = "kcp-publisher"
		}
		parsed, err := template.New(name).Parse(text)
		if err != nil {
			return err
		}
		var out bytes.Buffer
		if err := parsed.Execute(
			&out,
			map[string]any{
				"Program":  program,
				"Version":  r.version,
				"Archives": archives[program],
				"About":    abouts[program],
			},
		); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(r.dir, name), out.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}

var abouts = map[string]string{
	"kcp-publisher": "Publish signed bundles to clusters that pull them",
	"skr-agent":     "Pull, verify and apply signed bundles in a cluster",
}

const formula = `class CLASS < Formula
  desc "{{ .About }}"
  homepage "https://github.com/kyma-pull/kyma-pull"
  version "{{ .Version }}"
  license "Apache-2.0"
{{ range .Archives }}
  on_{{ if eq .OS "darwin" }}macos{{ else }}linux{{ end }} do
    on_{{ .CPU }} do
      url "{{ .URL }}"
      sha256 "{{ .Sum }}"
    end
  end
{{ end }}
  def install
    bin.install "{{ .Program }}"
    generate_completions_from_executable(bin/"{{ .Program }}", "completion")
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/{{ .Program }} --version")
  end
end
`

const krewManifest = `apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: kyma-pull
spec:
  version: v{{ .Version }}
  homepage: https://github.com/kyma-pull/kyma-pull
  shortDescription: {{ .About }}
  description: |
    Shows the health of a fleet of clusters, and controls rollouts, enrollment and components.
    The commands are those of kcp-publisher: kubectl kyma-pull status, why, rollout, and others.
  platforms:
{{- range .Archives }}
  - selector:
      matchLabels:
        os: {{ .OS }}
        arch: {{ .Arch }}
    uri: {{ .URL }}
    sha256: {{ .Sum }}
    bin: {{ $.Program }}
    files:
    - {from: {{ $.Program }}, to: .}
    - {from: LICENSE, to: .}
{{- end }}
`
