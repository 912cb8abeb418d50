// Package routecheck asks route tables questions without running a proxy: it
// runs tests in the format of Envoy's router_check tool (RT-50) and explains
// which route a request takes and why.
package routecheck
