package stats

import (
	"errors"
	"regexp/syntax"
)

// RegexError says what is wrong with a pattern in RE2's words, which are also
// Envoy's.
func RegexError(pattern string, err error) string {
	var e *syntax.Error
	if !errors.As(err, &e) {
		return err.Error()
	}
	switch e.Code {
	case syntax.ErrMissingParen:
		return "missing ): " + pattern
	case syntax.ErrUnexpectedParen:
		return "unexpected ): " + pattern
	case syntax.ErrMissingBracket:
		return "missing ]: " + e.Expr
	case syntax.ErrMissingRepeatArgument:
		return "no argument for repetition operator: " + e.Expr
	case syntax.ErrInvalidRepeatOp:
		return "bad repetition operator: " + e.Expr
	case syntax.ErrInvalidRepeatSize:
		return "invalid repetition size: " + e.Expr
	case syntax.ErrInvalidPerlOp:
		return "invalid perl operator: " + e.Expr
	case syntax.ErrTrailingBackslash:
		return `trailing \`
	default: // the remaining texts are the same
		return e.Code.String() + ": " + e.Expr
	}
}
