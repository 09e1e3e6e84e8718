package flagset

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

// GitFlags selects a revision of a Git repository, the credentials to read the repository, and the trusted signers.
type GitFlags struct {
	branch, Tag, path, credentials, Signers string
}

// Add adds the flags.
func (f *GitFlags) Add(flags *pflag.FlagSet) {
	flags.StringVar(&f.branch, "git-branch", "", "branch of the Git repository; default: HEAD")
	flags.StringVar(&f.Tag, "git-tag", "", "tag of the Git repository, instead of a branch")
	flags.StringVar(&f.path, "git-path", "", "folder inside the Git repository; files outside it are ignored")
	flags.StringVar(&f.credentials, "git-credentials", "",
		"folder with the files of a Flux Git Secret: for HTTPS, username and password or bearerToken, and optionally "+
			"ca.crt; for SSH, identity and known_hosts")
	flags.StringVar(&f.Signers, "git-signers", "",
		"armored OpenPGP key ring or SSH allowed signers file; one of the keys must have signed the commit")
	cli.RequireValues(flags, "git-signers")
}

// IsSet reports whether one of the flags is set.
func (f *GitFlags) IsSet() bool { return *f != GitFlags{} }

// Open returns the repository with the given URL. flag is the name of the flag that contains the URL, for
// error messages.
func (f *GitFlags) Open(flag, url string) (*git.Repository, error) {
	options := git.Options{URL: url, Branch: f.branch, Tag: f.Tag, Path: f.path}
	var err error
	if f.credentials != "" {
		if options.Credentials, err = git.ReadCredentials(f.credentials); err != nil {
			return nil, cli.Usage(fmt.Errorf("--git-credentials: %w", err))
		}
	}
	if f.Signers != "" {
		if options.Signers, err = git.ReadSigners(f.Signers); err != nil {
			return nil, cli.Usage(fmt.Errorf("--git-signers: %w", err))
		}
	}
	repository, err := git.Open(options)
	if err != nil {
		return nil, cli.Usage(fmt.Errorf("%s: %w", flag, err))
	}
	return repository, nil
}

// LoadedObjects contains the objects from a commit or a folder.
type LoadedObjects struct {
	Objects source.Objects
	// Source identifies the commit with the objects. Source is nil if the objects come from a folder.
	Source     *bundle.Source
	repository *git.Repository
	commit     *git.Commit
	copied     string
}

// Applied returns the commit that contains the objects. ok is false if the objects are from a folder.
func (l LoadedObjects) Applied() (commit git.AppliedCommit, ok bool) {
	if l.commit == nil {
		return git.AppliedCommit{}, false
	}
	return l.repository.Applied(l.commit), true
}

// CheckSuccessor returns an error if the commit does not follow the last commit: see git.Repository.CheckSuccessor. It
// accepts all objects from a folder.
func (l LoadedObjects) CheckSuccessor(ctx context.Context, last git.AppliedCommit) error {
	if l.commit == nil {
		return nil
	}
	return l.repository.CheckSuccessor(ctx, l.commit, last)
}

// Close removes the copies of the commit's files.
func (l LoadedObjects) Close() {
	if l.copied != "" {
		_ = os.RemoveAll(l.copied)
	}
}

// LoadObjects reads objects from a Git repository or a folder. It prints ignored files to out. flag is
// the name of the flag that contains the location, for error messages.
func (f *GitFlags) LoadObjects(ctx context.Context, flag, from string, out io.Writer) (LoadedObjects, error) {
	if !git.IsRepository(from) {
		if f.IsSet() {
			return LoadedObjects{},
				cli.Usage(
					fmt.Errorf(
						"%s %s is a folder, so the --git flags do not apply: use file://PATH for a local repository",
						flag, from))
		}
		objects, err := source.Folder(from)
		return LoadedObjects{Objects: objects}, err
	}
	repository, err := f.Open(flag, from)
	if err != nil {
		return LoadedObjects{}, err
	}
	commit, objects, err := source.Commit(ctx, repository)
	if err != nil {
		return LoadedObjects{}, err
	}
	if len(objects.Written) == 0 {
		return LoadedObjects{}, fmt.Errorf("commit %s of %s has no objects: check --git-path", commit.Hash, repository.URL)
	}
	for _, ignored := range commit.Ignored {
		cli.Printf(out, "ignored %s\n", ignored)
	}
	l := LoadedObjects{
		Objects: objects, Source: &bundle.Source{Repository: repository.URL, Commit: commit.Hash},
		repository: repository, commit: commit,
	}
	if len(objects.Components) == 0 {
		return l, nil
	}
	if l.copied, err = os.MkdirTemp("", "kcp-publisher-commit-"); err != nil {
		return LoadedObjects{}, err
	}
	if err := os.CopyFS(l.copied, commit.Files); err != nil {
		l.Close()
		return LoadedObjects{}, fmt.Errorf("store the files of commit %s: %w", commit.Hash, err)
	}
	for i, name := range objects.Components {
		l.Objects.Components[i] = filepath.Join(l.copied, filepath.FromSlash(name))
	}
	return l, nil
}
