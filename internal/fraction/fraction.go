// Package fraction reads shares of requests. Source: type/v3/percent.proto.
package fraction

import typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"

// Of is a share as a numerator and a denominator; nil is 0 of 100.
func Of(p *typev3.FractionalPercent) (numerator, denominator uint64) {
	return uint64(p.GetNumerator()), Parts(p.GetDenominator())
}

// Parts is what a denominator counts: 100, 10 000 or 1 000 000. One that is not
// known counts as 100, as in Envoy.
func Parts(d typev3.FractionalPercent_DenominatorType) uint64 {
	switch d {
	case typev3.FractionalPercent_TEN_THOUSAND:
		return 10_000
	case typev3.FractionalPercent_MILLION:
		return 1_000_000
	}
	return 100
}

// On tells whether a share takes in a random number.
func On(random, numerator, denominator uint64) bool { return random%denominator < numerator }
