package main

import (
	"bufio"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/xebec-proxy/xebec/bench/proxy/meter"
	"github.com/xebec-proxy/xebec/bench/proxy/raw"
)

const (
	wrkPath     = "/api/v1/items"
	opensslFile = "openssl.cnf"
	// opensslConfig has wrk, which knows no such option, offer the one cipher
	// suite that all proxies are to use: Envoy follows the client's preference,
	// and that of OpenSSL would be AES-256.
	opensslConfig = `openssl_conf = main
[main]
ssl_conf = ssl
[ssl]
system_default = defaults
[defaults]
Ciphersuites = TLS_AES_128_GCM_SHA256
`
)

// wrkArgs send about what the load program sends, on one thread.
func wrkArgs(seconds int) []string {
	return []string{
		"-t1", "-d" + strconv.Itoa(seconds) + "s",
		"-H", "User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0",
		"-H", "Accept: application/json, text/plain, */*",
		"-H", "Cookie: session=0123456789abcdef0123456789abcdef; theme=dark",
	}
}

// wrkValues takes what wrk printed apart. Its start counts into the time, too.
func wrkValues(out string, used meter.Used) (raw.Values, error) {
	var n, wrong float64
	for sc := bufio.NewScanner(strings.NewReader(out)); sc.Scan(); {
		line := strings.TrimSpace(sc.Text())
		switch {
		case strings.Contains(line, " requests in "):
			x, err := strconv.ParseFloat(strings.Fields(line)[0], 64)
			if err != nil {
				return nil, fmt.Errorf("wrk printed %q", line)
			}
			n = x
		case strings.HasPrefix(line, "Non-2xx"), strings.HasPrefix(line, "Socket errors"):
			for f := range strings.FieldsSeq(strings.ReplaceAll(line, ",", " ")) {
				if x, err := strconv.ParseFloat(f, 64); err == nil {
					wrong += x
				}
			}
		}
	}
	if n == 0 || used.Proxy <= 0 {
		return nil, fmt.Errorf("wrk counted no request: %s", out)
	}
	cpu := used.Proxy.Seconds()
	return raw.Values{
		"n": n, "wrong": wrong, "rps": math.Round(n / used.Time.Seconds()), perCore: math.Round(n / cpu),
		cpuMicroseconds: thousandths(cpu * 1e6 / n), "busy": thousandths(cpu / used.Time.Seconds()), other: thousandths(used.Other),
	}, nil
}

func thousandths(x float64) float64 { return math.Round(x*1000) / 1000 }
