package admin

import (
	"html/template"
	"net/http"
	"strings"
)

// help is /help.
func (s *Server) help(w http.ResponseWriter, _ *http.Request) { reply(w, http.StatusOK, s.commands()) }

// commands lists the endpoints that are built.
func (s *Server) commands() string {
	var b strings.Builder
	b.WriteString("admin commands are:\n")
	for i := range s.list {
		e := &s.list[i]
		if e.serve == nil {
			continue
		}
		b.WriteString("  " + e.path)
		if e.changes {
			b.WriteString(" (POST)")
		}
		b.WriteString(": " + e.help + "\n")
		for _, p := range e.params {
			b.WriteString("      " + p.name + ": " + p.help)
			if len(p.choices) > 0 {
				b.WriteString("; one of " + strings.Join(p.choices, ", "))
			}
			b.WriteString("\n")
		}
	}
	return b.String()
}

const indexPage = `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>Xebec Admin</title>
<style>
body { font-family: sans-serif; margin: 2em; }
td, th { text-align: left; padding: 4px 16px 4px 0; vertical-align: top; }
td.param { padding-left: 2em; color: #444; }
form { display: inline; }
</style>
</head>
<body>
<h1>Xebec Admin</h1>
<table>
<tr><th>Command</th><th>Description</th></tr>
{{- range .}}
<tr><td>{{if .POST}}<form action="{{.Name}}" method="post"><button>{{.Name}}</button></form>{{else}}<a href="{{.Path}}">{{.Name}}</a>{{end}}</td><td>{{.Help}}</td></tr>
{{- range .Params}}
<tr><td class="param">{{.Name}}</td><td>{{.Help}}</td></tr>
{{- end}}
{{- end}}
</table>
</body>
</html>
`

// row is an endpoint on the page. Links are relative, so that the pages work
// behind a prefix.
type row struct {
	Name, Path, Help string
	POST             bool
	Params           []struct{ Name, Help string }
}

// index is /: the list as a page.
func (s *Server) index(w http.ResponseWriter, r *http.Request) {
	var rows []row
	for i := range s.list {
		e := &s.list[i]
		if e.serve == nil {
			continue
		}
		x := row{Name: strings.TrimPrefix(e.path, "/"), Help: e.help, POST: e.changes}
		if x.Path = x.Name; x.Name == "" {
			x.Name, x.Path = "/", "."
		}
		for _, p := range e.params {
			x.Params = append(x.Params, struct{ Name, Help string }{p.name, p.help})
		}
		rows = append(rows, x)
	}
	page, err := template.New("index").Parse(indexPage)
	if err != nil {
		s.failed(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=UTF-8")
	if err := page.Execute(w, rows); err != nil {
		s.o.Logger.Debug("the admin page was not sent", "error", err)
	}
}
