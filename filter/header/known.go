package header

// ID stands for a name that the proxy knows.
type ID uint8

// The names that have an id.
const (
	Other ID = iota // every other name
	Method
	Path
	Authority
	Scheme
	Status
	Protocol
	Host
	Connection
	KeepAlive
	ProxyConnection
	TransferEncoding
	Upgrade
	TE
	Trailer
	Expect
	ContentLength
	ContentType
	ContentEncoding
	Accept
	AcceptEncoding
	AcceptLanguage
	UserAgent
	Cookie
	SetCookie
	Date
	Server
	Via
	Location
	CacheControl
	ETag
	LastModified
	Vary
	Referer
	Origin
	Authorization
	XForwardedFor
	XForwardedProto
	XForwardedHost
	XForwardedPort
	XForwardedClientCert
	XRequestID
	XEnvoyInternal
	XEnvoyExternalAddress
	XEnvoyUpstreamServiceTime
	XEnvoyExpectedRQTimeoutMS
	XEnvoyAttemptCount
	XEnvoyOriginalPath
	XEnvoyOriginalHost
	XEnvoyDecoratorOperation
	XEnvoyDownstreamServiceCluster
	XEnvoyDownstreamServiceNode
	XEnvoyForceTrace
	XEnvoyIPTags
	XEnvoyMaxRetries
	XEnvoyRetryOn
	XEnvoyRetryGRPCOn
	XEnvoyRetriableHeaderNames
	XEnvoyRetriableStatusCodes
	XEnvoyUpstreamAltStatName
	XEnvoyUpstreamRQPerTryTimeoutMS
	XEnvoyUpstreamRQTimeoutAltResponse
	XEnvoyUpstreamRQTimeoutMS
	XEnvoyHedgeOnPerTryTimeout
	XEnvoyOverloaded
	XEnvoyDegraded
	XEnvoyImmediateHealthCheckFail
	XEnvoyUpstreamCanary
	XEnvoyRatelimited
	XEnvoyIsTimeoutRetry
	XEnvoyLocalOverloaded
	XClientTraceID
	GRPCStatus
	GRPCMessage
	GRPCTimeout
	GRPCEncoding
	GRPCAcceptEncoding
	numKnown
)

// names are the known names by id.
//
//nolint:gochecknoglobals // a table of constants
var names = [numKnown]string{
	Method:                             ":method",
	Path:                               ":path",
	Authority:                          ":authority",
	Scheme:                             ":scheme",
	Status:                             ":status",
	Protocol:                           ":protocol",
	Host:                               "host",
	Connection:                         "connection",
	KeepAlive:                          "keep-alive",
	ProxyConnection:                    "proxy-connection",
	TransferEncoding:                   "transfer-encoding",
	Upgrade:                            "upgrade",
	TE:                                 "te",
	Trailer:                            "trailer",
	Expect:                             "expect",
	ContentLength:                      "content-length",
	ContentType:                        "content-type",
	ContentEncoding:                    "content-encoding",
	Accept:                             "accept",
	AcceptEncoding:                     "accept-encoding",
	AcceptLanguage:                     "accept-language",
	UserAgent:                          "user-agent",
	Cookie:                             "cookie",
	SetCookie:                          "set-cookie",
	Date:                               "date",
	Server:                             "server",
	Via:                                "via",
	Location:                           "location",
	CacheControl:                       "cache-control",
	ETag:                               "etag",
	LastModified:                       "last-modified",
	Vary:                               "vary",
	Referer:                            "referer",
	Origin:                             "origin",
	Authorization:                      "authorization",
	XForwardedFor:                      "x-forwarded-for",
	XForwardedProto:                    "x-forwarded-proto",
	XForwardedHost:                     "x-forwarded-host",
	XForwardedPort:                     "x-forwarded-port",
	XForwardedClientCert:               "x-forwarded-client-cert",
	XRequestID:                         "x-request-id",
	XEnvoyInternal:                     "x-envoy-internal",
	XEnvoyExternalAddress:              "x-envoy-external-address",
	XEnvoyUpstreamServiceTime:          "x-envoy-upstream-service-time",
	XEnvoyExpectedRQTimeoutMS:          "x-envoy-expected-rq-timeout-ms",
	XEnvoyAttemptCount:                 "x-envoy-attempt-count",
	XEnvoyOriginalPath:                 "x-envoy-original-path",
	XEnvoyOriginalHost:                 "x-envoy-original-host",
	XEnvoyDecoratorOperation:           "x-envoy-decorator-operation",
	XEnvoyDownstreamServiceCluster:     "x-envoy-downstream-service-cluster",
	XEnvoyDownstreamServiceNode:        "x-envoy-downstream-service-node",
	XEnvoyForceTrace:                   "x-envoy-force-trace",
	XEnvoyIPTags:                       "x-envoy-ip-tags",
	XEnvoyMaxRetries:                   "x-envoy-max-retries",
	XEnvoyRetryOn:                      "x-envoy-retry-on",
	XEnvoyRetryGRPCOn:                  "x-envoy-retry-grpc-on",
	XEnvoyRetriableHeaderNames:         "x-envoy-retriable-header-names",
	XEnvoyRetriableStatusCodes:         "x-envoy-retriable-status-codes",
	XEnvoyUpstreamAltStatName:          "x-envoy-upstream-alt-stat-name",
	XEnvoyUpstreamRQPerTryTimeoutMS:    "x-envoy-upstream-rq-per-try-timeout-ms",
	XEnvoyUpstreamRQTimeoutAltResponse: "x-envoy-upstream-rq-timeout-alt-response",
	XEnvoyUpstreamRQTimeoutMS:          "x-envoy-upstream-rq-timeout-ms",
	XEnvoyHedgeOnPerTryTimeout:         "x-envoy-hedge-on-per-try-timeout",
	XEnvoyOverloaded:                   "x-envoy-overloaded",
	XEnvoyDegraded:                     "x-envoy-degraded",
	XEnvoyImmediateHealthCheckFail:     "x-envoy-immediate-health-check-fail",
	XEnvoyUpstreamCanary:               "x-envoy-upstream-canary",
	XEnvoyRatelimited:                  "x-envoy-ratelimited",
	XEnvoyIsTimeoutRetry:               "x-envoy-is-timeout-retry",
	XEnvoyLocalOverloaded:              "x-envoy-local-overloaded",
	XClientTraceID:                     "x-client-trace-id",
	GRPCStatus:                         "grpc-status",
	GRPCMessage:                        "grpc-message",
	GRPCTimeout:                        "grpc-timeout",
	GRPCEncoding:                       "grpc-encoding",
	GRPCAcceptEncoding:                 "grpc-accept-encoding",
}

// Name is the name of an id, or "" for Other.
func (id ID) Name() string { return names[id] }

// tableSize is the size of the table of known names; the factors of slotOf were
// searched so that no two names share a slot, which a test checks.
const tableSize = 512

func slotOf(name string) uint {
	n := uint(len(name))
	return (n*405 + uint(name[0])*212 + uint(name[n>>1])*261 + uint(name[n-1])*385 + uint(name[n*3>>2])*426) % tableSize
}

// KnownID is the id of a lower-case name, or Other.
func KnownID(name string) ID {
	if name == "" {
		return Other
	}
	if id := table[slotOf(name)]; names[id] == name {
		return id
	}
	return Other
}

// table has the only name that can be meant at each slot.
//
//nolint:gochecknoglobals // a table of constants
var table = [tableSize]ID{
	3:   XEnvoyDownstreamServiceNode,
	26:  XEnvoyRatelimited,
	28:  XEnvoyImmediateHealthCheckFail,
	33:  UserAgent,
	40:  XForwardedHost,
	42:  TE,
	44:  SetCookie,
	51:  XEnvoyAttemptCount,
	70:  Path,
	76:  XEnvoyUpstreamRQTimeoutMS,
	79:  XEnvoyMaxRetries,
	87:  AcceptEncoding,
	104: Authorization,
	106: Scheme,
	114: XEnvoyDegraded,
	115: TransferEncoding,
	121: Method,
	123: ContentType,
	124: XEnvoyDecoratorOperation,
	126: Upgrade,
	127: GRPCTimeout,
	128: Location,
	140: Server,
	144: GRPCMessage,
	149: Origin,
	151: XEnvoyRetriableStatusCodes,
	155: XRequestID,
	172: ProxyConnection,
	190: XEnvoyUpstreamCanary,
	194: AcceptLanguage,
	197: XEnvoyUpstreamServiceTime,
	207: Via,
	209: GRPCAcceptEncoding,
	228: XEnvoyUpstreamAltStatName,
	229: Connection,
	237: XEnvoyExternalAddress,
	240: CacheControl,
	247: XEnvoyIPTags,
	287: XEnvoyExpectedRQTimeoutMS,
	288: XForwardedClientCert,
	298: ETag,
	303: Host,
	304: Cookie,
	311: XEnvoyHedgeOnPerTryTimeout,
	320: XEnvoyIsTimeoutRetry,
	322: XEnvoyOverloaded,
	328: XClientTraceID,
	332: LastModified,
	333: Expect,
	338: GRPCEncoding,
	346: XEnvoyUpstreamRQPerTryTimeoutMS,
	351: Date,
	375: ContentLength,
	376: XForwardedPort,
	391: XEnvoyForceTrace,
	392: XForwardedProto,
	400: XEnvoyLocalOverloaded,
	404: ContentEncoding,
	409: Vary,
	415: Accept,
	421: Status,
	425: XForwardedFor,
	434: XEnvoyRetryOn,
	435: Protocol,
	436: Trailer,
	440: Authority,
	454: XEnvoyOriginalPath,
	463: XEnvoyDownstreamServiceCluster,
	466: XEnvoyOriginalHost,
	473: XEnvoyUpstreamRQTimeoutAltResponse,
	477: XEnvoyInternal,
	493: GRPCStatus,
	498: KeepAlive,
	503: XEnvoyRetriableHeaderNames,
	504: Referer,
	511: XEnvoyRetryGRPCOn,
}
