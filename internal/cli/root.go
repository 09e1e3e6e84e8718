package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/fluxcd/pkg/runtime/logger"
	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"
)

const configName = "config"

// Root contains a program's global flags.
type Root struct {
	Version string
	color   string
	log     logger.Options
}

// fluxNames maps Flux controllers' flag names to this project's flag names. Users can use either name.
var fluxNames = map[string]pflag.NormalizedName{
	"log-encoding":           "log-format",
	"concurrent":             "concurrency",
	"metrics-addr":           "metrics-bind-address",
	"metrics-secure":         "metrics-auth",
	"health-addr":            "health-probe-bind-address",
	"enable-leader-election": "leader-elect",
}

// NewRoot returns a program's root command, without subcommands, and its flags.
func NewRoot(name, short, version string) (*cobra.Command, *Root) {
	info, _ := debug.ReadBuildInfo()
	version = programVersion(version, info)
	r := &Root{Version: version}
	cmd := Group(name, short)
	cmd.Version, cmd.SilenceErrors, cmd.SilenceUsage = version, true, true
	cmd.PersistentPreRunE = func(cmd *cobra.Command, args []string) error {
		err := errors.Join(checkEmpty(cmd, args), checkDurations(cmd.Flags()), checkFormats(cmd.Flags()))
		if err != nil {
			return err
		}
		if err := r.setColors(cmd.OutOrStdout()); err != nil {
			return err
		}
		return r.checkLogging()
	}
	cmd.SetFlagErrorFunc(flagError)
	cmd.SetGlobalNormalizationFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if ours, ok := fluxNames[name]; ok {
			return ours
		}
		return pflag.NormalizedName(name)
	})
	flags := cmd.PersistentFlags()
	flags.String(configName, "",
		"YAML file that sets flags and settings by name, with a list for a repeatable flag; the command line takes "+
			"precedence")
	flags.StringVar(&r.color, "color", "auto",
		"color the output: auto, always or never; auto uses colors on terminals unless $NO_COLOR is set")
	flags.StringVar(&r.log.LogLevel, "log-level", "info", "trace, debug, info or error")
	flags.StringVar(&r.log.LogEncoding, "log-format", "json", "json or console")
	cmd.AddCommand(newVersion(version))
	setUsage(cmd)
	asPlugin(cmd, os.Args[0])
	return cmd, r
}

// Group returns a command with subcommands. Without a subcommand, it prints its help.
func Group(use, short string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownCommand(cmd, args[0])
			}
			return cmd.Help()
		},
	}
	cmd.AddCommand(commands...)
	return cmd
}

// Exactly requires n positional arguments. expected describes the arguments in errors, such as "one runtime".
func Exactly(n int, expected string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if n == 0 && len(args) == 1 && cmd.Flags().Lookup("from") != nil && looksLikeSource(args[0]) {
			return Usage(fmt.Errorf("expected %s: use --from %s", expected, args[0]))
		}
		if len(args) != n {
			plural := "s"
			if len(args) == 1 {
				plural = ""
			}
			return Usage(fmt.Errorf("expected %s, got %d argument%s", expected, len(args), plural))
		}
		return nil
	}
}

// looksLikeSource reports whether an argument can be a value of --from: a path, a location or an existing folder.
func looksLikeSource(argument string) bool {
	_, err := os.Stat(argument)
	return err == nil || strings.ContainsAny(argument, "/:.")
}

// AtLeastOne requires at least one positional argument. kind describes the arguments in errors, such as
// "runtime".
func AtLeastOne(kind string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) == 0 {
			return Usage(fmt.Errorf("expected at least one %s", kind))
		}
		return nil
	}
}

// Logger returns a logger with the level and format from the flags.
func (r *Root) Logger() logr.Logger { return logger.NewLogger(r.log) }

func (r *Root) setColors(out io.Writer) error {
	on, err := isColored(r.color, IsTerminal(out), os.Getenv)
	if p, ok := out.(*escapingWriter); ok && on {
		p.colorMarker = newColorMarker()
	}
	return err
}

// checkLogging returns an error for invalid values of the logging flags, which the logger would ignore.
func (r *Root) checkLogging() error {
	if !slices.Contains([]string{"trace", "debug", "info", "error"}, r.log.LogLevel) {
		return Usage(fmt.Errorf("--log-level %q: must be trace, debug, info or error", r.log.LogLevel))
	}
	if !slices.Contains([]string{"json", "console"}, r.log.LogEncoding) {
		return Usage(fmt.Errorf("--log-format %q: must be json or console", r.log.LogEncoding))
	}
	return nil
}

// readConfigFirst makes a command and its subcommands read the --config file before they check their arguments, because
// these checks depend on flags.
func readConfigFirst(cmd *cobra.Command) {
	check := cmd.Args
	if check == nil {
		check = cobra.ArbitraryArgs
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if flag := cmd.Flags().Lookup(configName); flag != nil && flag.Value.String() != "" {
			if err := readConfig(flag.Value.String(), cmd.Flags()); err != nil {
				return err
			}
		}
		return check(cmd, args)
	}
	for _, inner := range cmd.Commands() {
		readConfigFirst(inner)
	}
}

// readConfig applies a --config file to flags and settings. Values on the command line take precedence.
func readConfig(path string, flags *pflag.FlagSet) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return Usage(fmt.Errorf("--config: %w", err))
	}
	values := map[string]any{}
	// UseNumber preserves the text of a number. Otherwise, 1000000 would become 1e+06, which integer flags cannot
	// parse.
	exact := func(d *json.Decoder) *json.Decoder { d.UseNumber(); return d }
	if err := yaml.UnmarshalStrict(data, &values, exact); err != nil {
		return Usage(fmt.Errorf("--config %s: %w", path, err))
	}
	named := map[string]bool{}
	for name, value := range values {
		in, flag := flags, flags.Lookup(name)
		if all := SettingsOf(flags); flag == nil && all != nil {
			in, flag = all, all.Lookup(name)
		}
		if flag == nil || flag.Name == configName || flag.Name == setName {
			return Usage(fmt.Errorf("--config %s: %q is not a flag or setting of this command%s", path, name,
				ClosestNames(name, optionNames(flags))))
		}
		if named[flag.Name] {
			return Usage(fmt.Errorf("--config %s: --%s is set under two names: remove one", path, flag.Name))
		}
		named[flag.Name] = true
		if flag.Changed {
			continue
		}
		if err := setFlag(in, flag, value); err != nil {
			return Usage(fmt.Errorf("--config %s: %s: %w", path, name, err))
		}
	}
	return nil
}

func setFlag(flags *pflag.FlagSet, flag *pflag.Flag, value any) error {
	list, isList := value.([]any)
	if _, repeatable := flag.Value.(pflag.SliceValue); isList && !repeatable {
		return errors.New("must be one value, not a list")
	}
	if !isList {
		list = []any{value}
	}
	for _, v := range list {
		switch v.(type) {
		case string, bool, json.Number:
		default:
			return errors.New("must be a string, number or boolean, or a list of these types")
		}
		if err := cause(flags.Set(flag.Name, fmt.Sprint(v))); err != nil {
			return fmt.Errorf("invalid value %q: %w", fmt.Sprint(v), err)
		}
	}
	return nil
}
