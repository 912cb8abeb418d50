// Package archtest holds the rules of docs/architecture.md that a linter
// cannot see, as tests: which package may reach which through others, what
// packages and files may be called and how large a file may grow.
package archtest
