package hpack

import "github.com/xebec-proxy/xebec/filter/header"

type staticField struct {
	name, value string
	id          header.ID
}

// static is the table of RFC 7541 appendix A; index 0 is none.
//
//nolint:gochecknoglobals // a constant table
var static = [...]staticField{
	{},
	{":authority", "", header.Authority},
	{":method", "GET", header.Method},
	{":method", "POST", header.Method},
	{":path", "/", header.Path},
	{":path", "/index.html", header.Path},
	{":scheme", "http", header.Scheme},
	{":scheme", "https", header.Scheme},
	{":status", "200", header.Status},
	{":status", "204", header.Status},
	{":status", "206", header.Status},
	{":status", "304", header.Status},
	{":status", "400", header.Status},
	{":status", "404", header.Status},
	{":status", "500", header.Status},
	{"accept-charset", "", header.Other},
	{"accept-encoding", "gzip, deflate", header.AcceptEncoding},
	{"accept-language", "", header.AcceptLanguage},
	{"accept-ranges", "", header.Other},
	{"accept", "", header.Accept},
	{"access-control-allow-origin", "", header.Other},
	{"age", "", header.Other},
	{"allow", "", header.Other},
	{"authorization", "", header.Authorization},
	{"cache-control", "", header.CacheControl},
	{"content-disposition", "", header.Other},
	{"content-encoding", "", header.ContentEncoding},
	{"content-language", "", header.Other},
	{"content-length", "", header.ContentLength},
	{"content-location", "", header.Other},
	{"content-range", "", header.Other},
	{"content-type", "", header.ContentType},
	{"cookie", "", header.Cookie},
	{"date", "", header.Date},
	{"etag", "", header.ETag},
	{"expect", "", header.Expect},
	{"expires", "", header.Other},
	{"from", "", header.Other},
	{"host", "", header.Host},
	{"if-match", "", header.Other},
	{"if-modified-since", "", header.Other},
	{"if-none-match", "", header.Other},
	{"if-range", "", header.Other},
	{"if-unmodified-since", "", header.Other},
	{"last-modified", "", header.LastModified},
	{"link", "", header.Other},
	{"location", "", header.Location},
	{"max-forwards", "", header.Other},
	{"proxy-authenticate", "", header.Other},
	{"proxy-authorization", "", header.Other},
	{"range", "", header.Other},
	{"referer", "", header.Referer},
	{"refresh", "", header.Other},
	{"retry-after", "", header.Other},
	{"server", "", header.Server},
	{"set-cookie", "", header.SetCookie},
	{"strict-transport-security", "", header.Other},
	{"transfer-encoding", "", header.TransferEncoding},
	{"user-agent", "", header.UserAgent},
	{"vary", "", header.Vary},
	{"via", "", header.Via},
	{"www-authenticate", "", header.Other},
}

const numStatic = len(static) - 1
