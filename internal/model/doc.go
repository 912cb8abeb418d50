// Package model reads resources: their names, what they refer to and what is
// nested inside them. It is pure: values in, values out, without I/O, locks or
// a clock.
package model
