package format_test

import (
	"strconv"
	"testing"

	"github.com/xebec-proxy/xebec/internal/dataplane/format"
)

const defaultLine = `[%START_TIME%] "%REQ(:METHOD)% %REQ(X-ENVOY-ORIGINAL-PATH?:PATH)% %PROTOCOL%" %RESPONSE_CODE% %RESPONSE_FLAGS% %BYTES_RECEIVED% %BYTES_SENT% %DURATION% ` +
	`%RESP(X-ENVOY-UPSTREAM-SERVICE-TIME)% "%REQ(X-FORWARDED-FOR)%" "%REQ(USER-AGENT)%" "%REQ(X-REQUEST-ID)%" "%REQ(:AUTHORITY)%" "%UPSTREAM_HOST%"` + "\n"

func twentyFields(t testing.TB) *format.JSON {
	text := "{"
	for i, op := range []string{
		"START_TIME", "REQ(:METHOD)", "REQ(X-ENVOY-ORIGINAL-PATH?:PATH)", "PROTOCOL", "RESPONSE_CODE", "RESPONSE_FLAGS", "BYTES_RECEIVED", "BYTES_SENT", "DURATION", "RESP(X-ENVOY-UPSTREAM-SERVICE-TIME)",
		"REQ(X-FORWARDED-FOR)", "REQ(USER-AGENT)", "REQ(X-REQUEST-ID)", "REQ(:AUTHORITY)", "UPSTREAM_HOST", "RESPONSE_CODE_DETAILS", "UPSTREAM_CLUSTER", "ROUTE_NAME", "DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT", "REQ(x-ctl)",
	} {
		if i > 0 {
			text += ","
		}
		text += strconv.Quote("f"+strconv.Itoa(i)) + ":" + strconv.Quote("%"+op+"%")
	}
	return parseJSON(t, text+"}", format.Options{})
}

// Proves AL-17, and that lines cost no allocation at all.
func TestAllocations(t *testing.T) {
	f, err := format.Parse(defaultLine)
	if err != nil {
		t.Fatal(err)
	}
	all := ""
	for name := range operators() {
		all += "%" + name + "% "
	}
	every, err := format.ParseWith(all, options())
	if err != nil {
		t.Fatal(err)
	}
	j, c := twentyFields(t), proxied()
	buf := make([]byte, 0, 64<<10)
	for name, run := range map[string]func(){
		"default": func() { f.AppendLog(buf, c) },
		"json":    func() { j.AppendLog(buf, c) },
		"every":   func() { every.AppendLog(buf, c) },
		"header":  func() { f.Append(buf, c.Req, c.Resp, c.Info) },
	} {
		if n := testing.AllocsPerRun(200, run); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func BenchmarkDefaultLine(b *testing.B) {
	f, err := format.Parse(defaultLine)
	if err != nil {
		b.Fatal(err)
	}
	c, buf := proxied(), make([]byte, 0, 1<<10)
	b.ReportAllocs()
	for b.Loop() {
		buf = f.AppendLog(buf[:0], c)
	}
}

func BenchmarkJSON20(b *testing.B) {
	j, c, buf := twentyFields(b), proxied(), make([]byte, 0, 1<<10)
	b.ReportAllocs()
	for b.Loop() {
		buf = j.AppendLog(buf[:0], c)
	}
}

func BenchmarkHeaderValue(b *testing.B) {
	f, err := format.Parse("%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%")
	if err != nil {
		b.Fatal(err)
	}
	c, buf := proxied(), make([]byte, 0, 1<<10)
	b.ReportAllocs()
	for b.Loop() {
		buf, _ = f.Append(buf[:0], c.Req, c.Resp, c.Info)
	}
}
