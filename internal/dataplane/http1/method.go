package http1

// knownMethod is the method that a word stands for.
func knownMethod(b []byte) (string, bool) {
	switch string(b) {
	case "GET":
		return "GET", true
	case "POST":
		return "POST", true
	case "HEAD":
		return "HEAD", true
	case "PUT":
		return "PUT", true
	case "DELETE":
		return "DELETE", true
	case "OPTIONS":
		return "OPTIONS", true
	case "PATCH":
		return "PATCH", true
	case "CONNECT":
		return "CONNECT", true
	case "TRACE":
		return "TRACE", true
	case "QUERY":
		return "QUERY", true
	}
	return rareMethod(b)
}

func rareMethod(b []byte) (string, bool) {
	const rare = " ACL BIND CHECKOUT COPY LINK LOCK MERGE MKACTIVITY MKCALENDAR MKCOL MOVE MSEARCH NOTIFY" +
		" PROPFIND PROPPATCH PURGE REBIND REPORT SEARCH SOURCE SUBSCRIBE UNBIND UNLINK UNLOCK UNSUBSCRIBE "
	for i := 1; i < len(rare); {
		j := i
		for rare[j] != ' ' {
			j++
		}
		if rare[i:j] == string(b) {
			return rare[i:j], true
		}
		i = j + 1
	}
	return "", false
}
