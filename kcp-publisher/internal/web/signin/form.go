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

// formPolicy is the form's Content-Security-Policy. The form can load only its inline style.
var formPolicy = func() string {
	sum := sha256.Sum256([]byte(formStyle))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
}()

type formData struct {
	// Title, Text and Commands replace the sign-in form if Title is set.
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

// Style returns the content of the page's inline style element.
func (formData) Style() template.CSS { return template.CSS(formStyle) } //nolint:gosec // formStyle is an embedded file

func (s *Service) showForm(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	s.form(w, http.StatusOK, formData{Next: landingPath(query.Get("next")), Ended: query.Get("ended") == "true"})
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
	_ = formTemplate.Execute(w, data) // fails only if the client has disconnected
}

func (s *Service) refuse(w http.ResponseWriter, status int, title, text string) {
	if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "5")
	}
	s.form(w, status, formData{Title: title, Text: text})
}

// Forbid shows that a signed-in user lacks permissions. commands are kubectl commands that check these permissions.
func (s *Service) Forbid(w http.ResponseWriter, who User, text string, commands ...string) {
	s.form(w, http.StatusForbidden, formData{
		Title: "You cannot see this", Text: text, Commands: commands, User: who.GetName(),
	})
}

// Fail shows that the user's permissions could not be checked.
func (s *Service) Fail(w http.ResponseWriter) {
	s.refuse(w, http.StatusServiceUnavailable, "Cannot check your permissions",
		"The API server did not respond. Try again in a moment.")
}
