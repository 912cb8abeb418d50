package format

import "fmt"

// syntax is what may follow an operator's name.
type syntax uint8

const (
	nameOnly  syntax = 0
	withParam syntax = 1 << iota // needs a parameter
	mayParam
	mayLength
)

// check applies the syntax; the texts are Envoy's.
func (s syntax) check(t *token) error {
	switch {
	case s == nameOnly && (t.param != "" || t.hasMax):
		return fmt.Errorf("%s does not take any parameters or length", t.name)
	case s&withParam != 0 && t.param == "":
		return fmt.Errorf("%s requires parameters", t.name)
	case s&mayLength == 0 && t.hasMax:
		return fmt.Errorf("%s does not allow length to be specified.", t.name) //nolint:revive,staticcheck // Envoy's text
	}
	return nil
}

// maker makes an operator of its parameter.
type maker func(t *token, o *Options) (*op, error)

// build makes an operator.
func build(t *token, o *Options) (*op, error) {
	if made := plain(t.name); made != nil {
		if err := nameOnly.check(t); err != nil {
			return nil, err
		}
		return made, nil
	}
	s, mk := parametrised(t.name, o)
	if mk == nil {
		return nil, unsupported(t.name)
	}
	if err := s.check(t); err != nil {
		return nil, err
	}
	made, err := mk(t, o)
	if err != nil {
		return nil, err
	}
	made.max, made.cut = t.max, t.hasMax
	return made, nil
}

// unsupported tells operators that Envoy has and Xebec has not from those that
// nobody has.
func unsupported(name string) error {
	switch name {
	case "CEL", "TYPED_CEL", "TLS_JA3_FINGERPRINT", "TLS_JA4_FINGERPRINT", "XFCC_VALUE", "DOWNSTREAM_CX_RTT",
		"ROUTE_RESOLUTION_COUNT", "ROUTE_RESOLUTION_TIME_US", "DOWNSTREAM_WIRE_BYTES_RECEIVED", "DOWNSTREAM_WIRE_BYTES_SENT",
		"DOWNSTREAM_HEADER_BYTES_RECEIVED", "DOWNSTREAM_HEADER_BYTES_SENT", "UPSTREAM_HEADER_BYTES_RECEIVED", "UPSTREAM_HEADER_BYTES_SENT",
		"DOWNSTREAM_DECOMPRESSED_HEADER_BYTES_RECEIVED", "DOWNSTREAM_DECOMPRESSED_HEADER_BYTES_SENT",
		"UPSTREAM_DECOMPRESSED_HEADER_BYTES_RECEIVED", "UPSTREAM_DECOMPRESSED_HEADER_BYTES_SENT",
		"DOWNSTREAM_PEER_ISSUER_FINGERPRINT_256", "DOWNSTREAM_PEER_ISSUER_SERIAL":
		return fmt.Errorf("the operator %%%s%% is not built; remove it from the format", name)
	}
	return fmt.Errorf("Not supported field in StreamInfo: %s", name) //nolint:staticcheck // Envoy's text
}

// plain makes an operator that takes neither parameter nor length; nil if there
// is none of that name.
func plain(name string) *op {
	for _, group := range [...]func(string) *op{
		resultOp, sizeOp, durationOp, downstreamOp, upstreamOp, attemptOp, downstreamTLSOp, upstreamTLSOp,
	} {
		if made := group(name); made != nil {
			return made
		}
	}
	return nil
}

// parametrised finds the maker of an operator with a parameter or length.
func parametrised(name string, o *Options) (syntax, maker) {
	switch name {
	case "REQ", "REQUEST_HEADER":
		return withParam | mayLength, requestHeader
	case "RESP", "RESPONSE_HEADER":
		return withParam | mayLength, responseHeader
	case "TRAILER", "RESPONSE_TRAILER":
		return withParam | mayLength, responseTrailer
	case "REQ_WITHOUT_QUERY":
		if o.ReqWithoutQuery {
			return withParam | mayLength, requestWithoutQuery
		}
	case "PATH":
		return mayParam | mayLength, pathOp
	case "QUERY_PARAM":
		return withParam | mayLength, queryParam
	case "QUERY_PARAMS":
		return mayParam | mayLength, queryParams
	case "GRPC_STATUS":
		return mayParam, grpcStatus
	case "RESPONSE_CODE_DETAILS":
		return mayParam, codeDetails
	case "COMMON_DURATION":
		return withParam, commonDuration
	case "REQUESTED_SERVER_NAME":
		return mayParam, serverName
	case "ENVIRONMENT":
		return withParam | mayLength, environment
	case "HOSTNAME":
		return nameOnly, hostname
	case "COALESCE":
		return withParam | mayLength, coalesce
	case "FILTER_STATE", "UPSTREAM_FILTER_STATE":
		return mayParam | mayLength, filterState
	case "METADATA":
		return mayParam | mayLength, anyMetadata
	case "DYNAMIC_METADATA":
		return withParam | mayLength, dynamicMetadata
	case "CLUSTER_METADATA":
		return withParam, clusterMetadata
	case "UPSTREAM_METADATA":
		return withParam, upstreamMetadata
	}
	if mk := addressOp(name); mk != nil {
		return mayParam, mk
	}
	if mk := timeOp(name); mk != nil {
		return mayParam, mk
	}
	return nameOnly, nil
}
