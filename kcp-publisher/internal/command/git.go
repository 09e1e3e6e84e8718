package command

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/gitops/git"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/gitops/source"
)

type gitFlags struct {
	branch, tag, path, credentials, signers string
}

func (f *gitFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.branch, "git-branch", "", "branch of the Git repository; default: HEAD")
	flags.StringVar(&f.tag, "git-tag", "", "tag of the Git repository, instead of a branch")
	flags.StringVar(&f.path, "git-path", "", "folder inside the Git repository; files outside it are ignored")
	flags.StringVar(&f.credentials, "git-credentials", "",
		"folder with the files of a Flux Git Secret: for HTTPS, username and password or bearerToken, and optionally "+
			"ca.crt; for SSH, identity and known_hosts")
	flags.StringVar(&f.signers, "git-signers", "",
		"armored OpenPGP key ring or SSH allowed signers file; one of the keys must have signed the commit")
}

func (f *gitFlags) isSet() bool { return *f != gitFlags{} }

// open returns the repository with the given URL. flag is the name of the URL's flag, for error messages.
func (f *gitFlags) open(flag, url string) (*git.Repository, error) {
	options := git.Options{URL: url, Branch: f.branch, Tag: f.tag, Path: f.path}
	var err error
	if f.credentials != "" {
		if options.Credentials, err = git.ReadCredentials(f.credentials); err != nil {
			return nil, cli.Usage(fmt.Errorf("--git-credentials: %w", err))
		}
	}
	if f.signers != "" {
		if options.Signers, err = git.ReadSigners(f.signers); err != nil {
			return nil, cli.Usage(fmt.Errorf("--git-signers: %w", err))
		}
	}
	repository, err := git.Open(options)
	if err != nil {
		return nil, cli.Usage(fmt.Errorf("%s: %w", flag, err))
	}
	return repository, nil
}

type loadedObjects struct {
	objects source.Objects
	// source identifies the commit that contains the objects. It is nil if the objects are from a folder.
	source *bundle.Source
	copied string
}

func (l loadedObjects) close() {
	if l.copied != "" {
		_ = os.RemoveAll(l.copied)
	}
}

func (f *gitFlags) loadObjects(ctx context.Context, flag, from string, out io.Writer) (loadedObjects, error) {
	if !git.IsRepository(from) {
		if f.isSet() {
			return loadedObjects{},
				cli.Usage(
					fmt.Errorf(
						"%s %s is a folder, so the --git flags do not apply: use file://PATH for a local repository",
						flag, from))
		}
		objects, err := source.Folder(from)
		return loadedObjects{objects: objects}, err
	}
	repository, err := f.open(flag, from)
	if err != nil {
		return loadedObjects{}, err
	}
	commit, objects, err := source.Commit(ctx, repository)
	if err != nil {
		return loadedObjects{}, err
	}
	if len(objects.Written) == 0 {
		return loadedObjects{}, fmt.Errorf("commit %s of %s has no objects: check --git-path", commit.Hash, repository.URL)
	}
	for _, ignored := range commit.Ignored {
		cli.Printf(out, "ignored %s\n", ignored)
	}
	l := loadedObjects{objects: objects, source: &bundle.Source{Repository: repository.URL, Commit: commit.Hash}}
	if len(objects.Components) == 0 {
		return l, nil
	}
	if l.copied, err = os.MkdirTemp("", "kcp-publisher-commit-"); err != nil {
		return loadedObjects{}, err
	}
	if err := os.CopyFS(l.copied, commit.Files); err != nil {
		l.close()
		return loadedObjects{}, fmt.Errorf("store the files of commit %s: %w", commit.Hash, err)
	}
	for i, name := range objects.Components {
		l.objects.Components[i] = filepath.Join(l.copied, filepath.FromSlash(name))
	}
	return l, nil
}
