// Package cli is the command line: commands, flags, the environment, exit
// codes and output formats. What the commands do is elsewhere.
package cli
