// Package living tests that a proxy whose configuration changes loses nothing:
// `xebec serve` and `xebec proxy` as processes, constant load of every kind
// through the proxy, and a configuration that is edited at random meanwhile, by
// every way in which the proxy can get it.
//
// The tests have the build tag interop. Their order of changes is chosen by a
// seed, which they print; XEBEC_LOSS_SEED chooses it again. XEBEC_LOSS_CHANGES is
// how many changes each way gets:
//
//	make loss LOSS_CHANGES=1000
//
// TestGeneratedSameAsEnvoy has configurations of its own: generated ones that
// vary in everything that routes, clusters and endpoints can say, given to the
// proxy and to a real Envoy by one server. They are the same in every run;
// XEBEC_SAME_SEED chooses others:
//
//	make same SEED=7
package living
