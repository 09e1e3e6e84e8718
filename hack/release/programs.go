package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/kyma-pull/kyma-pull/hack/plaintar"
)

type platform struct{ os, arch string }

func parsePlatforms(text string) (all []platform, err error) {
	for name := range strings.SplitSeq(text, ",") {
		system, arch, ok := strings.Cut(name, "/")
		if !ok || !slices.Contains([]string{"linux", "darwin"}, system) ||
			!slices.Contains([]string{"amd64", "arm64"}, arch) {
			return nil, fmt.Errorf("unsupported platform %q: use linux or darwin with amd64 or arm64", name)
		}
		all = append(all, platform{system, arch})
	}
	return all, nil
}

// commit is the release's Git commit.
type commit struct {
	hash string
	time time.Time
}

// readCommit returns the newest commit of the checkout. It returns an error if the checkout has uncommitted changes,
// because the build would not be reproducible.
func readCommit(ctx context.Context) (commit, error) {
	changes, err := output(ctx, nil, "git", "status", "--porcelain")
	if err != nil {
		return commit{}, err
	}
	if changes != "" {
		return commit{}, fmt.Errorf("the checkout has uncommitted changes:\n%s", changes)
	}
	text, err := output(ctx, nil, "git", "log", "-1", "--format=%H %cI")
	if err != nil {
		return commit{}, err
	}
	hash, at, _ := strings.Cut(text, " ")
	parsed, err := time.Parse(time.RFC3339, at)
	return commit{hash, parsed.UTC()}, err
}

// output runs a program and returns its standard output without trailing newlines.
func output(ctx context.Context, env []string, program string, args ...string) (string, error) {
	var out, problems bytes.Buffer
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdout, cmd.Stderr, cmd.Env = &out, &problems, append(os.Environ(), env...)
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, problems.String())
	}
	return strings.TrimRight(out.String(), "\n"), nil
}

// binary returns the path of a built program for a platform.
func binary(scratch string, p platform, program string) string {
	return filepath.Join(scratch, p.os+"-"+p.arch, program)
}

// buildPrograms builds the programs and packs each with its license.
func (r *release) buildPrograms(ctx context.Context, scratch string) error {
	if r.tools != "" {
		return r.goreleaser(ctx, scratch)
	}
	license, err := os.ReadFile("LICENSE")
	if err != nil {
		return err
	}
	for _, p := range r.platforms {
		env := append([]string{"GOOS=" + p.os, "GOARCH=" + p.arch}, isolatedEnvironment...)
		dir := filepath.Dir(binary(scratch, p, "any"))
		args := []string{"build", "-trimpath", "-ldflags", ldflags(r.version), "-o", dir + "/"}
		for _, program := range programs {
			args = append(args, "./"+program)
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		if _, err := output(ctx, env, "go", args...); err != nil {
			return err
		}
		for _, program := range programs {
			data, err := os.ReadFile(binary(scratch, p, program))
			if err != nil {
				return err
			}
			info, err := buildinfo.Read(bytes.NewReader(data))
			if err != nil {
				return fmt.Errorf("%s: %w", program, err)
			}
			if err := checkCommit(info.Settings, r.commit.hash); err != nil {
				return fmt.Errorf("%s: %w", program, err)
			}
			packed, err := pack(
				[]plaintar.File{
					{Name: program, Data: data, Mode: 0o755},
					{Name: "LICENSE", Data: license, Mode: 0o644},
				},
				r.commit.time,
			)
			if err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(r.dir, archiveFile(program, r.version, p)), packed, 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkCommit returns an error if a program's build settings do not contain the release's commit. go build omits the
// commit without a warning, for example in a linked worktree of Git.
func checkCommit(settings []debug.BuildSetting, hash string) error {
	for _, s := range settings {
		if s.Key == "vcs.revision" && s.Value == hash {
			return nil
		}
	}
	return fmt.Errorf("the program does not contain commit %s: build the release in a clone with the folder .git, "+
		"not in a linked worktree", hash)
}

// pack returns a reproducible gzipped tar archive.
func pack(files []plaintar.File, at time.Time) ([]byte, error) {
	var out bytes.Buffer
	zipped, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	err = errors.Join(plaintar.Write(zipped, files, at), zipped.Close())
	return out.Bytes(), err
}

// writeDefinitions writes the CRDs of each chart to one file for kubectl.
func (r *release) writeDefinitions() error {
	for chart, folder := range map[string]string{
		"kcp-publisher": "charts/kcp-publisher/files/crds",
		"skr-agent":     "charts/skr-agent/crds",
	} {
		files, err := fs.Glob(os.DirFS(folder), "*.yaml")
		if err != nil {
			return err
		}
		var all bytes.Buffer
		for _, name := range files { // Glob returns sorted names
			data, err := os.ReadFile(filepath.Join(folder, name))
			if err != nil {
				return err
			}
			if !bytes.HasPrefix(data, []byte("---\n")) {
				all.WriteString("---\n")
			}
			all.Write(data)
		}
		if err := os.WriteFile(filepath.Join(r.dir, definitionsFile(chart, r.version)), all.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}
