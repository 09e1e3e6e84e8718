package signin

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"html/template"
	"net/http"
	"net/url"
)

//go:embed form.html
var formText string

//go:embed form.css
var formStyle string

var formTemplate = template.Must(template.New("form").Parse(formText))

// formPolicy lets the form load nothing but the style that is in it.
var formPolicy = func() string {
	sum := sha256.Sum256([]byte(formStyle))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
}()

// formData is what the form shows.
type formData struct {
	// Title and Text are set where something is told instead of asked for, and then Commands may be copied.
	Title, Text string
	Commands    []string
	User        string

	Next             string
	Tokens, Provider bool
	Audience         string
	Refused, Ended   bool
	Issuer, Leave    string
	SignIn, SignOut  string
	TokenAction      string
}

// Style is in the head of the page.
func (formData) Style() template.CSS { return template.CSS(formStyle) } //nolint:gosec // a file of ours

func (s *Service) showForm(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	s.form(w, http.StatusOK, formData{Next: landing(query.Get("next")), Ended: query.Get("ended") == "true"})
}

func (s *Service) form(w http.ResponseWriter, status int, data formData) {
	data.Tokens, data.Provider, data.TokenAction = s.TokenForm, s.OIDC != nil, pathToken
	if s.Tokens != nil {
		data.Audience = s.Tokens.audience
	}
	if s.OIDC != nil {
		issuer, _ := url.Parse(s.OIDC.options.Issuer)
		data.Issuer = issuer.Host
		data.Leave = pathOIDC + "?" + url.Values{"next": {data.Next}}.Encode()
	}
	data.SignIn, data.SignOut = pathSignIn, pathSignOut
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", formPolicy)
	w.WriteHeader(status)
	_ = formTemplate.Execute(w, data) // the client is gone
}

// refuse tells people why they do not get further.
func (s *Service) refuse(w http.ResponseWriter, status int, title, text string) {
	if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "5")
	}
	s.form(w, status, formData{Title: title, Text: text})
}

// Forbid tells a user which rights are missing, as commands that ask the API server about them.
func (s *Service) Forbid(w http.ResponseWriter, who User, text string, commands ...string) {
	s.form(w, http.StatusForbidden, formData{Title: "You may not see this", Text: text, Commands: commands, User: who.GetName()})
}

// Fail tells a user that nobody can say now what they may see.
func (s *Service) Fail(w http.ResponseWriter) {
	s.refuse(w, http.StatusServiceUnavailable, "Cannot tell what you may see", "The API server did not answer. Nothing is shown until it does; try again in a moment.")
}
