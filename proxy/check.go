package proxy

import (
	"errors"
	"fmt"
	"slices"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	"google.golang.org/protobuf/proto"

	"github.com/xebec-proxy/xebec/internal/dataplane/support"
	"github.com/xebec-proxy/xebec/validate"
)

// check refuses by name what the bootstrap asks for and this version does not
// have, and takes optional filters that are not built out of a copy, which
// becomes the proxy's bootstrap. own are the extensions of the embedding program.
func (p *Proxy) check(own []string) error {
	if err := p.cfg.ValidateAll(); err != nil {
		return fmt.Errorf("Proto constraint validation failed (%w)", err) //nolint:staticcheck // Envoy's text
	}
	catalog, err := support.New(support.Options{Extensions: own})
	if err != nil {
		return fmt.Errorf("tables of what is built: %w", err)
	}
	b, ok := proto.Clone(p.cfg).(*bootstrapv3.Bootstrap)
	if !ok {
		return errors.New("the bootstrap cannot be copied")
	}
	p.cfg = b
	report := catalog.Check(b, nil, p.rt.Load().Bool)
	p.o.DeprecatedUses += report.Deprecated
	var errs []error
	for _, f := range report.Findings {
		if f.Severity == validate.Error {
			errs = append(errs, fmt.Errorf("%s: %s", f.Path, f.Message))
			continue
		}
		p.log.Warn(f.Message, "component", "config", "field", f.Path) //nolint:sloglint // the message is Envoy's
	}
	return errors.Join(errs...)
}

// added are the names in all that are not in before; both are sorted.
func added(before, all []string) []string {
	var out []string
	for _, n := range all {
		if _, was := slices.BinarySearch(before, n); !was {
			out = append(out, n)
		}
	}
	return out
}
