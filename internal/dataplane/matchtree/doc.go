// Package matchtree decides by a tree of conditions, Envoy's unified matcher.
//
// A tree ([New]) is built once of an xds.type.matcher.v3.Matcher. It is generic in
// what it looks at and in what it decides: whoever uses it names the inputs and the
// actions that make sense there ([Env]). What is not known is refused by name.
//
// A tree is immutable; any number of goroutines may ask it. How much it looks at does
// not grow with a map: of an exact map one key is looked up, of a prefix map and of
// ranges of addresses one for each length that occurs, of domains one for each label.
//
// Source: xds/type/matcher/v3/matcher.proto, ip.proto, domain.proto; spec HF-16, FC-13.
package matchtree
