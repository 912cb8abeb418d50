// Package support knows what of Envoy's API this build of the proxy has, and
// refuses the rest by name. What is built stands in text tables beside this
// file, so that a reader finds it without reading code; tables/bootstrap.txt
// explains their format.
//
// The rule it keeps: nothing that is configured is silently ignored. A field or
// an extension that is understood but not built is an error that names it, where
// it stands and what to do; the few fields that are accepted without effect are
// listed in the tables and give a warning each.
package support
