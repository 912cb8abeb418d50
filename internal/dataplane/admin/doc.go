// Package admin serves Envoy's admin endpoints (spec section AD): the same
// paths, statuses, texts and JSON, so that tools made for Envoy work.
//
// A Server shows and changes nothing of its own: what there is to see and to do
// it asks of a View, which the proxy supplies. It runs on its own listener and
// its own goroutines, so it answers while the workers are busy (AD-19). What
// Envoy has and this version has not is refused by name with status 501.
package admin
