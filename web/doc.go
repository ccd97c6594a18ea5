// Package web is the pages for people: the dashboard of operators and the view of depositors.
//
//	request -> handler -> operations of the API (server.Ask) -> view -> template
//
// A handler asks the operations of the JSON API in the name of its sender, and passes their answers to a view: a pure
// function from types of package api to what the template shows. So a page shows and does what the API allows, and
// decides nothing itself. Forms are sent as POST, become requests to the API, and answer with a redirect.
//
// Pages are html/template over one frame (pages/frame.html) with a style sheet and a script of this server; the
// Content-Security-Policy allows nothing else. Everything works without the script. It adds updates while a page is
// open, the command palette, and local times. Modules make pages of their own over the same frame: see [New].
package web
