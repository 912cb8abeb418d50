package route

// JoinsValues tells whether a value that is added to a header of a request or a
// response is joined to the value that is there, as Envoy does with some.
func JoinsValues(name string, request bool) bool {
	if request {
		return singleLine(name, requestHeaders)
	}
	return singleLine(name, responseHeaders)
}
