package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// programs lists the programs in a release.
var programs = []string{"kcp-publisher", "skr-agent"}

// supportedPlatforms lists the platforms of the programs. Images are built for Linux platforms.
const supportedPlatforms = "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64"

const (
	checksumsFile   = "SHA256SUMS"
	checksumsBundle = checksumsFile + ".sigstore.json"
	provenanceFile  = "provenance.intoto.jsonl"
	publicKeyFile   = "release.pub"
	krewFile        = "kyma-pull.yaml"
)

// ldflags returns the linker flags of the programs. Functions at multiples of 16 instead of 32 bytes make the programs
// one percent smaller.
func ldflags(version string) string { return "-s -w -funcalign=16 -X main.version=" + version }

func archiveFile(program, version string, p platform) string {
	return fmt.Sprintf("%s_%s_%s_%s.tar.gz", program, version, p.os, p.arch)
}

func billFile(program, version string) string { return program + "_" + version + ".cdx.json" }

func chartFile(program, version string) string { return program + "-" + version + ".tgz" }

func definitionsFile(program, version string) string { return program + "-crds_" + version + ".yaml" }

func manifestFile(program, version string) string { return program + "-install_" + version + ".yaml" }

func formulaFile(program string) string { return program + ".rb" }

func layoutFile(version string) string { return "oci_" + version + ".tar" }

func kustomizeFile(version string) string { return "kustomize_" + version + ".tar.gz" }

func attestationsFile(version string) string { return "attestations_" + version + ".sigstore.jsonl" }

// contents returns the sorted names of a release's files. A release without a key has no signatures.
func contents(version string, platforms []platform, signed bool) []string {
	names := []string{layoutFile(version), kustomizeFile(version), krewFile, checksumsFile}
	for _, program := range programs {
		for _, p := range platforms {
			names = append(names, archiveFile(program, version, p))
		}
		names = append(names, billFile(program, version), chartFile(program, version),
			definitionsFile(program, version), manifestFile(program, version), formulaFile(program))
	}
	if signed {
		names = append(names, checksumsFile+".sig", checksumsBundle, provenanceFile, publicKeyFile,
			attestationsFile(version))
	}
	slices.Sort(names)
	return names
}

// ociArtifacts lists the images and charts in the OCI image layout, by name.
func ociArtifacts() (names []string) {
	for _, program := range programs {
		names = append(names, program, "charts/"+program)
	}
	return names
}

// checkContents returns an error if the folder of the release has missing or additional files.
func (r *release) checkContents() error {
	entries, err := os.ReadDir(r.dir) // sorted by name
	if err != nil {
		return err
	}
	want := contents(r.version, r.platforms, r.key != nil)
	var problems []string
	for _, entry := range entries {
		if !slices.Contains(want, entry.Name()) {
			problems = append(problems, "unexpected "+entry.Name())
		}
		want = slices.DeleteFunc(want, func(name string) bool { return name == entry.Name() })
	}
	for _, name := range want {
		problems = append(problems, "missing "+name)
	}
	if len(problems) > 0 {
		return fmt.Errorf("%s: %s", r.dir, strings.Join(problems, ", "))
	}
	return nil
}
