// Package promote implements the commands that promote module versions between channels.
package promote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/mail"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/controlplane"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/flagset"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/preview"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/gitops/git"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/gitops/promote"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/gitops/source"
)

type promoteFlags struct {
	controlplane.Flags
	from, to, branch, format string
	create, yes              bool
	restricted               []string
	commits                  commitFlags
}

type commitFlags struct {
	url, author, key string
	dryRun           bool
	git              flagset.GitFlags
}

func (f *commitFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.url, "git-url", "", "URL of the Git repository")
	f.git.Add(flags)
	flags.StringVar(&f.author, "author", "", `committer for commit and sign-off, "NAME <ADDRESS>"`)
	flags.StringVar(&f.key, "git-signing-key", "", "SSH private key that signs the commit")
	flags.BoolVar(&f.dryRun, "dry-run", false, "show the commit without making it")
}

func (f *commitFlags) required() []cli.Required {
	return []cli.Required{{Flag: "--git-url", Given: f.url != ""}, {Flag: "--author", Given: f.author != ""}}
}

func (f *commitFlags) open() (*git.Repository, git.Change, error) {
	if f.git.Tag != "" {
		return nil, git.Change{}, cli.Usage(errors.New("--git-tag: commits need a branch; use --git-branch"))
	}
	author, err := readAuthor(f.author)
	if err != nil {
		return nil, git.Change{}, err
	}
	change := git.Change{Name: author.Name, Email: author.Address, Time: time.Now()}
	if f.key != "" {
		if f.git.Signers == "" {
			return nil, change, cli.Usage(errors.New("--git-signing-key requires --git-signers to verify the parent " +
				"commit, because the new signature also covers it"))
		}
		if change.Key, err = git.ReadSigningKey(f.key); err != nil {
			return nil, change, cli.Usage(fmt.Errorf("--git-signing-key: %w", err))
		}
	}
	repository, err := f.git.Open("--git-url", f.url)
	return repository, change, err
}

// New returns the command promote.
func New() *cobra.Command {
	f := &promoteFlags{}
	cmd := &cobra.Command{
		Use: "promote MODULE", Short: "promote the version in one channel to another channel", Args: promoteArgs,
		Long: "promote changes one version in the ModuleReleaseMeta of a module. With --git-url, it commits the " +
			"change with a sign-off and pushes it to\n" +
			"--git-branch or to a new branch; it keeps the comments and formatting of the file. Without --git-url, " +
			"it shows the affected runtimes,\n" +
			"asks for confirmation and changes the ModuleReleaseMeta in the control plane.",
		Example: "  kcp-publisher promote keda --from fast --to regular\n" +
			"  kcp-publisher promote keda --from fast --to regular --git-url https://git.example/fleet --author 'Ann " +
			"<ann@example.org>'",
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0]) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.from, "from", "", "source channel for the version")
	flags.StringVar(&f.to, "to", "", "target channel for the version")
	f.commits.add(flags)
	flags.Lookup("git-url").Usage = "URL of the Git repository to commit to; default: none, change the control plane"
	flags.Lookup("dry-run").Usage = "show the change without making it"
	flags.StringVar(&f.branch, "branch", "", "new branch for the commit, for review; default: commit to --git-branch")
	flags.BoolVar(&f.create, "create", false, "create the target channel if the module does not have it")
	flags.BoolVar(&f.yes, "yes", false, "change the control plane without asking")
	f.Add(flags, "the ModuleReleaseMeta")
	flagset.AddRestrictedFlag(flags, &f.restricted)
	cli.OutputFlag(flags, &f.format)
	cli.Complete(cmd, f.Modules)
	cli.CompleteFlag(cmd, "from", f.Channels)
	cli.CompleteFlag(cmd, "to", f.Channels)
	return cmd
}

// promoteArgs requires one module. If the channels are arguments instead of flags, its error shows the correct
// command.
func promoteArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 3 {
		return cli.Usage(fmt.Errorf("expected a module, got 3 arguments: use %s --from %s --to %s", args[0], args[1],
			args[2]))
	}
	return cli.Exactly(1, "a module")(cmd, args)
}

// Result is a promotion that was committed to a Git repository, or that a dry run would commit.
type Result struct {
	promote.Promotion
	Branch string `json:"branch"`
	// Commit is the hash of the new commit, or empty for a dry run.
	Commit  string `json:"commit,omitempty"`
	Preview string `json:"preview,omitempty"`
}

func (f *promoteFlags) run(cmd *cobra.Command, module string) error {
	required := []cli.Required{{Flag: "--from", Given: f.from != ""}, {Flag: "--to", Given: f.to != ""}}
	if f.commits.url != "" {
		required = append(required, f.commits.required()...)
	}
	if err := cli.RequireFlags(required...); err != nil {
		return err
	}
	if f.from == f.to {
		return cli.Usage(fmt.Errorf("--from and --to are both %q: must be two channels of module %s", f.from, module))
	}
	if f.commits.url == "" {
		return f.patchMeta(cmd, module)
	}
	repository, change, err := f.commits.open()
	if err != nil {
		return err
	}
	row, err := commitPromotion(cmd.Context(), repository, change, promotionRequest{
		module: module, from: f.from, to: f.to, create: f.create, branch: f.branch, dryRun: f.commits.dryRun,
	})
	if errors.Is(err, promote.ErrNothing) {
		cli.Printf(cmd.ErrOrStderr(), "%v\n", err)
		return nil
	}
	if err != nil {
		return err
	}
	return cli.Print(cmd.OutOrStdout(), f.format, row, row.draw)
}

func readAuthor(text string) (*mail.Address, error) {
	author, err := mail.ParseAddress(text)
	if err != nil || author.Name == "" || strings.ContainsAny(author.Name+author.Address, "<>\n") {
		return nil, cli.Usage(fmt.Errorf(`--author %q: must be "NAME <ADDRESS>"`, text))
	}
	return author, nil
}

type promotionRequest struct {
	module, from, to string
	create           bool
	// branch is the name of the new branch for the commit. If it is empty, the commit goes to the branch in
	// --git-branch.
	branch string
	dryRun bool
	// If check is set, it returns an error unless the promotion has the expected versions.
	check func(promote.Promotion) error
}

func commitPromotion(
	ctx context.Context, repository *git.Repository, change git.Change, want promotionRequest,
) (Result, error) {
	commit, objects, err := source.Commit(ctx, repository)
	if err != nil {
		return Result{}, err
	}
	files, promotion, err := editPromotion(repository, commit, objects, want)
	if err != nil {
		return Result{}, err
	}
	change.Files = files
	change.Message = promotion.Message(change.Name + " <" + change.Email + ">")
	row := Result{Promotion: promotion, Branch: cmp.Or(want.branch, commit.Branch)}
	if row.Branch == "" {
		return row, cli.Usage(errors.New("the repository's HEAD is not a branch: use --git-branch"))
	}
	if want.dryRun {
		row.Preview, err = repository.Preview(commit, change)
	} else {
		row.Commit, err = repository.Push(ctx, commit, change, row.Branch)
	}
	return row, err
}

// editPromotion applies a promotion to the file that contains the module's ModuleReleaseMeta in a commit. It returns
// the changed file's new content, by path, and the promotion.
func editPromotion(
	repository *git.Repository, commit *git.Commit, objects source.Objects, want promotionRequest,
) (map[string][]byte, promote.Promotion, error) {
	where := fmt.Sprintf("commit %s of %s", commit.Hash, repository.URL)
	meta, err := releaseMeta(objects, want.module)
	if err != nil {
		return nil, promote.Promotion{}, fmt.Errorf("%s: %w", where, err)
	}
	data, err := fs.ReadFile(commit.Files, meta.File)
	if err != nil {
		return nil, promote.Promotion{}, fmt.Errorf("%s: %w", where, err)
	}
	edited, promotion, err := promote.Edit(data, meta.Line, want.module, want.from, want.to, want.create)
	if err == nil && want.check != nil {
		err = want.check(promotion)
	}
	if err != nil {
		return nil, promotion,
			fmt.Errorf("%s: %s: %w", where, strings.TrimSuffix(meta.Place, fmt.Sprintf(":%d", meta.Line)), err)
	}
	return map[string][]byte{meta.File: edited}, promotion, nil
}

func releaseMeta(objects source.Objects, module string) (source.Written, error) {
	names := map[string]bool{}
	var known []string
	for i := range objects.Metas {
		known = append(known, objects.Metas[i].Spec.ModuleName)
		if objects.Metas[i].Spec.ModuleName == module {
			names[objects.Metas[i].Name] = true
		}
	}
	var found []source.Written
	for _, w := range objects.Written {
		if w.Object.GetKind() == "ModuleReleaseMeta" && names[w.Object.GetName()] {
			found = append(found, w)
		}
	}
	switch len(found) {
	case 0:
		return source.Written{}, preview.NoReleaseMeta(module, known)
	case 1:
		return found[0], nil
	}
	return source.Written{},
		fmt.Errorf("module %s has a ModuleReleaseMeta in %s and another in %s: remove one", module, found[0].Place,
			found[1].Place)
}

func (p Result) draw(out io.Writer) {
	if p.Preview != "" {
		fmt.Fprint(out, p.Preview)
		return
	}
	cli.Printf(out, "promoted  %s to %s in channel %s, which had %s\n", p.Module, p.To, p.Channel,
		cmp.Or(p.From, "no version"))
	cli.Printf(out, "commit    %s on branch %s\n", p.Commit, p.Branch)
}
