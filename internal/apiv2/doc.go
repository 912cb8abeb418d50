// Package apiv2 says what v3 of Envoy's API calls things in v2, and writes v3
// resources as those of v2 for clients that know nothing else (XV-04).
//
// v3 kept the field numbers and types of v2, took fields away and added others.
// So a v3 message is one of v2 as soon as it is said in fields that v2 has, the
// types of extensions inside are renamed, and nothing is left that v2 does not
// know. Which message follows which is written in the options of v3's protos.
package apiv2
