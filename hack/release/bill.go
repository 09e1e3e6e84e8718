package main

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"

	"github.com/CycloneDX/cyclonedx-go"
)

// writeBills writes a CycloneDX bill of materials for each program. If the program has an image, writeBills also
// attaches the bill to the image.
func (r *release) writeBills(ctx context.Context, scratch string) error {
	layout, err := layout(scratch)
	if err != nil {
		return err
	}
	for _, program := range programs {
		bom, err := r.readBill(ctx, program, binary(scratch, r.platforms[0], program))
		if err != nil {
			return err
		}
		var out bytes.Buffer
		if err := cyclonedx.NewBOMEncoder(&out, cyclonedx.BOMFileFormatJSON).SetPretty(true).Encode(bom); err != nil {
			return err
		}
		if err := os.WriteFile(r.billOf(program), out.Bytes(), 0o644); err != nil {
			return err
		}
		if subject, ok := r.built[program]; ok {
			if err := r.attach(ctx, layout, subject, mediaTypeBill, out.Bytes(), nil); err != nil {
				return fmt.Errorf("%s: attach the bill of materials: %w", program, err)
			}
		}
	}
	return nil
}

func (r *release) billOf(program string) string {
	return filepath.Join(r.dir, billFile(program, r.version))
}

// readBill returns a built program's bill of materials.
func (r *release) readBill(ctx context.Context, program, file string) (*cyclonedx.BOM, error) {
	if r.tools != "" {
		return r.syftBill(ctx, program, file)
	}
	info, err := buildinfo.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return r.newBOM(program, info), nil
}

// newBOM returns a bill of materials with a program's Go modules and the standard library.
func (r *release) newBOM(program string, info *buildinfo.BuildInfo) *cyclonedx.BOM {
	bom := cyclonedx.NewBOM()
	own := "pkg:golang/" + info.Main.Path + "@" + r.version + "#" + program
	bom.Metadata = &cyclonedx.Metadata{
		Timestamp: r.commit.time.Format("2006-01-02T15:04:05Z"),
		Component: &cyclonedx.Component{
			BOMRef:     own,
			Type:       cyclonedx.ComponentTypeApplication,
			Name:       program,
			Version:    r.version,
			PackageURL: own,
		},
	}
	components := []cyclonedx.Component{{
		BOMRef: "pkg:golang/std@" + info.GoVersion, Type: cyclonedx.ComponentTypeLibrary, Name: "std",
		Version: info.GoVersion, PackageURL: "pkg:golang/std@" + info.GoVersion,
	}}
	refs := []string{components[0].BOMRef}
	for _, module := range info.Deps {
		c := library(module)
		components, refs = append(components, c), append(refs, c.BOMRef)
	}
	bom.Components = &components
	bom.Dependencies = &[]cyclonedx.Dependency{{Ref: own, Dependencies: &refs}}
	return bom
}

func library(module *debug.Module) cyclonedx.Component {
	if module.Replace != nil {
		module = module.Replace
	}
	url := "pkg:golang/" + module.Path + "@" + module.Version
	return cyclonedx.Component{
		BOMRef: url, Type: cyclonedx.ComponentTypeLibrary, Name: module.Path, Version: module.Version, PackageURL: url,
		Properties: &[]cyclonedx.Property{{Name: "go:sum", Value: module.Sum}},
	}
}
