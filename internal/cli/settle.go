package cli

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

const envPrefix = "XEBEC_"

// settle gives a command's flags their values: what the command line does not
// say comes from the environment, and what that does not say from the --config
// file.
func settle(cmd *cobra.Command, lookup func(string) (string, bool)) error {
	var errs []error
	fromEnv := func(f *pflag.Flag) {
		if f.Changed || reserved(f.Name) {
			return
		}
		if v, ok := lookup(envName(f.Name)); ok {
			if err := cmd.Flags().Set(f.Name, v); err != nil {
				errs = append(errs, usageErrorf("environment variable %s: %w", envName(f.Name), err))
			}
		}
	}
	cmd.Flags().VisitAll(fromEnv)
	if err := errors.Join(errs...); err != nil {
		return err
	}
	name, err := configFile(cmd, lookup)
	if err != nil || name == "" {
		return err
	}
	return settleFromFile(cmd, name)
}

// reserved flags say what to do rather than how.
func reserved(name string) bool {
	return name == "config" || name == "help" || name == "version"
}

func envName(flag string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

func configFile(cmd *cobra.Command, lookup func(string) (string, bool)) (string, error) {
	f := cmd.Flags().Lookup("config")
	if f == nil {
		return "", nil
	}
	if v, ok := lookup(envName("config")); ok && !f.Changed {
		return v, nil
	}
	return f.Value.String(), nil
}

func settleFromFile(cmd *cobra.Command, name string) error {
	data, err := os.ReadFile(name)
	if err != nil {
		return usageErrorf("the --config file cannot be read: %w", err)
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return usageErrorf("%s: %w", name, err)
	}
	if len(doc.Content) == 0 {
		return nil
	}
	s := settings{file: name, values: map[string]*yaml.Node{}}
	if err := s.read(cmd.Root(), doc.Content[0], commandPath(cmd)); err != nil {
		return err
	}
	return s.apply(cmd.Flags())
}

// commandPath is the words of a command, without the program's name.
func commandPath(cmd *cobra.Command) []string { return strings.Fields(cmd.CommandPath())[1:] }

// settings are the values of a --config file that concern one command.
type settings struct {
	file   string
	values map[string]*yaml.Node
}

// read checks a section of the file against its command, and keeps the values
// that lie on the way to the command that runs.
func (s *settings) read(cmd *cobra.Command, section *yaml.Node, way []string) error {
	if section.Kind != yaml.MappingNode {
		return s.errorf(section, "%q takes a mapping of flags to values", cmd.CommandPath())
	}
	for i := 0; i+1 < len(section.Content); i += 2 {
		key, value := section.Content[i], section.Content[i+1]
		if sub := subcommand(cmd, key.Value); sub != nil {
			var rest []string
			onTheWay := len(way) > 0 && way[0] == key.Value
			if onTheWay {
				rest = way[1:]
			}
			inner := settings{file: s.file, values: map[string]*yaml.Node{}}
			if err := inner.read(sub, value, rest); err != nil {
				return err
			}
			if onTheWay {
				maps.Copy(s.values, inner.values)
			}
			continue
		}
		if !hasFlag(cmd, key.Value) {
			return s.errorf(key, "%q has neither a command nor a flag --%s", cmd.CommandPath(), key.Value)
		}
		if _, inner := s.values[key.Value]; !inner {
			s.values[key.Value] = value
		}
	}
	return nil
}

func subcommand(cmd *cobra.Command, name string) *cobra.Command {
	for _, c := range cmd.Commands() {
		if c.Name() == name {
			return c
		}
	}
	return nil
}

func hasFlag(cmd *cobra.Command, name string) bool {
	return !reserved(name) && (cmd.Flags().Lookup(name) != nil || cmd.PersistentFlags().Lookup(name) != nil)
}

func (s *settings) apply(flags *pflag.FlagSet) error {
	var errs []error
	flags.VisitAll(func(f *pflag.Flag) {
		v, ok := s.values[f.Name]
		if !ok || f.Changed {
			return
		}
		text, err := s.text(v)
		if err == nil {
			if err = flags.Set(f.Name, text); err != nil {
				err = s.errorf(v, "%w", err)
			}
		}
		errs = append(errs, err)
	})
	return errors.Join(errs...)
}

// text is a value as it would be on the command line.
func (s *settings) text(v *yaml.Node) (string, error) {
	switch v.Kind {
	case yaml.ScalarNode:
		return v.Value, nil
	case yaml.SequenceNode:
		var l []string
		for _, item := range v.Content {
			if item.Kind != yaml.ScalarNode {
				return "", s.errorf(item, "a list may hold plain values only")
			}
			l = append(l, item.Value)
		}
		return strings.Join(l, ","), nil
	}
	return "", s.errorf(v, "this takes a plain value or a list of them")
}

func (s *settings) errorf(at *yaml.Node, format string, args ...any) error {
	return usageErrorf("%s:%d:%d: %w", s.file, at.Line, at.Column, fmt.Errorf(format, args...))
}
