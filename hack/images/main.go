// Command images builds OCI images of static programs without Docker. An image contains only the program and public
// certificate authorities, and runs as a non-root user. The images are reproducible.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "images:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	flags := flag.NewFlagSet("images", flag.ExitOnError)
	flags.Usage = func() {
		fmt.Fprintln(flags.Output(),
			"images writes PROGRAM-VERSION-linux-ARCH.tar for each program, and a link PROGRAM-linux-ARCH.tar to the "+
				"newest. docker load, kind load image-archive, ctr images import, skopeo and oras can read them.")
		fmt.Fprintln(flags.Output(), "\nusage: images [flags] PROGRAM...")
		flags.PrintDefaults()
	}
	repository := flags.String("repository", "ghcr.io/kyma-pull", "HOST/PATH prefix of the image names")
	version := flags.String("version", "dev", "tag of the images")
	created := flags.String("created", "1970-01-01T00:00:00Z", "creation time for the images, in RFC 3339 format")
	output := flags.String("output", "bin", "folder for the images")
	base := flags.String("base", "", "also build a base image without a program, for this architecture")
	if err := flags.Parse(args); err != nil {
		return err
	}
	at, err := time.Parse(time.RFC3339, *created)
	if err != nil {
		return fmt.Errorf("-created: %w", err)
	}
	var images []Options
	if *base != "" {
		images = append(images, Options{Name: "base", Architecture: *base})
	}
	for _, path := range flags.Args() {
		program, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		images = append(images, Options{Name: filepath.Base(path), Program: program})
	}
	if len(images) == 0 {
		return fmt.Errorf("at least one program is required")
	}
	for _, options := range images {
		options.Reference = *repository + "/" + options.Name + ":" + *version
		options.Version, options.Created = *version, at.UTC()
		image, err := Build(options)
		if err != nil {
			return fmt.Errorf("%s: %w", options.Name, err)
		}
		file := filepath.Join(*output, fmt.Sprintf("%s-%s-linux-%s.tar", options.Name, *version, image.Architecture))
		if err := os.WriteFile(file, image.Archive, 0o644); err != nil {
			return err
		}
		if err := linkNewest(filepath.Join(*output, fmt.Sprintf("%s-linux-%s.tar", options.Name, image.Architecture)),
			filepath.Base(file)); err != nil {
			return err
		}
		fmt.Printf("%s  %s@%s  %.1f MiB\n", file, image.Reference, image.Digest, float64(len(image.Archive))/(1<<20))
	}
	return nil
}

// linkNewest updates the symbolic link without a version to the newest file.
func linkNewest(link, file string) error {
	if err := os.Remove(link); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return os.Symlink(file, link)
}
