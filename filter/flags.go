package filter

// Flags are response flags (AL-13).
type Flags uint64

// Response flags, in Envoy's order.
const (
	FlagFailedLocalHealthCheck           Flags = 1 << iota // LH
	FlagNoHealthyUpstream                                  // UH
	FlagUpstreamRequestTimeout                             // UT
	FlagLocalReset                                         // LR
	FlagUpstreamRemoteReset                                // UR
	FlagUpstreamConnectionFailure                          // UF
	FlagUpstreamConnectionTermination                      // UC
	FlagUpstreamOverflow                                   // UO
	FlagNoRouteFound                                       // NR
	FlagDelayInjected                                      // DI
	FlagFaultInjected                                      // FI
	FlagRateLimited                                        // RL
	FlagUnauthorizedExternalService                        // UAEX
	FlagRateLimitServiceError                              // RLSE
	FlagDownstreamConnectionTermination                    // DC
	FlagUpstreamRetryLimitExceeded                         // URX
	FlagStreamIdleTimeout                                  // SI
	FlagInvalidEnvoyRequestHeaders                         // IH
	FlagDownstreamProtocolError                            // DPE
	FlagUpstreamMaxStreamDurationReached                   // UMSDR
	FlagResponseFromCacheFilter                            // RFCF
	FlagNoFilterConfigFound                                // NFCF
	FlagDurationTimeout                                    // DT
	FlagUpstreamProtocolError                              // UPE
	FlagNoClusterFound                                     // NC
	FlagOverloadManagerTerminated                          // OM
	FlagDnsResolutionFailed                                // DF
	FlagDropOverload                                       // DO
	FlagDownstreamRemoteReset                              // DR
	FlagUnconditionalDropOverload                          // UDO
)

//nolint:gochecknoglobals // a table of constants
var flagNames = [...][2]string{
	{"LH", "FailedLocalHealthCheck"},
	{"UH", "NoHealthyUpstream"},
	{"UT", "UpstreamRequestTimeout"},
	{"LR", "LocalReset"},
	{"UR", "UpstreamRemoteReset"},
	{"UF", "UpstreamConnectionFailure"},
	{"UC", "UpstreamConnectionTermination"},
	{"UO", "UpstreamOverflow"},
	{"NR", "NoRouteFound"},
	{"DI", "DelayInjected"},
	{"FI", "FaultInjected"},
	{"RL", "RateLimited"},
	{"UAEX", "UnauthorizedExternalService"},
	{"RLSE", "RateLimitServiceError"},
	{"DC", "DownstreamConnectionTermination"},
	{"URX", "UpstreamRetryLimitExceeded"},
	{"SI", "StreamIdleTimeout"},
	{"IH", "InvalidEnvoyRequestHeaders"},
	{"DPE", "DownstreamProtocolError"},
	{"UMSDR", "UpstreamMaxStreamDurationReached"},
	{"RFCF", "ResponseFromCacheFilter"},
	{"NFCF", "NoFilterConfigFound"},
	{"DT", "DurationTimeout"},
	{"UPE", "UpstreamProtocolError"},
	{"NC", "NoClusterFound"},
	{"OM", "OverloadManagerTerminated"},
	{"DF", "DnsResolutionFailed"},
	{"DO", "DropOverload"},
	{"DR", "DownstreamRemoteReset"},
	{"UDO", "UnconditionalDropOverload"},
}

// Has reports whether any of the given flags is set.
func (f Flags) Has(g Flags) bool { return f&g != 0 }

// AppendShort appends the flags' short names, joined by commas, or "-".
func (f Flags) AppendShort(dst []byte) []byte { return f.append(dst, 0) }

// AppendLong appends the flags' long names, joined by commas, or "-".
func (f Flags) AppendLong(dst []byte) []byte { return f.append(dst, 1) }

func (f Flags) append(dst []byte, form int) []byte {
	if f == 0 {
		return append(dst, '-')
	}
	first := true
	for i := range flagNames {
		if f&(1<<i) == 0 {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = append(dst, flagNames[i][form]...)
	}
	return dst
}

// FlagByName is the flag of a short name, or 0.
func FlagByName(short string) Flags {
	for i := range flagNames {
		if flagNames[i][0] == short {
			return 1 << i
		}
	}
	return 0
}
