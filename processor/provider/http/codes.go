package http

import "github.com/weirhq/weir/processor/provider"

// codes are what statuses mean without settings.map: [kindOf] and [mayBeReceived] in
// the form that every adapter's codes have. The outcome's code is http_ and the
// status.
var codes = provider.Codes{
	Sources: []provider.Source{
		{Title: "RFC 9110, HTTP Semantics, section 15", URL: "https://www.rfc-editor.org/rfc/rfc9110#section-15"},
		{Title: "RFC 6585, Additional HTTP Status Codes, section 4 (429)", URL: "https://www.rfc-editor.org/rfc/rfc6585#section-4"},
		{Title: "RFC 8470, Using Early Data in HTTP, section 5.2 (425)", URL: "https://www.rfc-editor.org/rfc/rfc8470#section-5.2"},
	},
	Send: []provider.Code{
		{Code: "3*", Kind: provider.Transient, MayBeReceived: true, Means: "redirects are not followed: settings.url is wrong"},
		{Code: "408", Kind: provider.Transient, Means: "the request was not taken: it came too slowly, or to a connection that was being closed"},
		{Code: "425", Kind: provider.Transient, Means: "the request was not taken: it came in early data"},
		{Code: "429", Kind: provider.Throttled, Means: "too many requests"},
		{Code: "4*", Kind: provider.Permanent, Means: "the request is refused"},
		{Code: "503", Kind: provider.Transient, Means: "the request was not taken: overload or maintenance"},
		{Code: "5*", Kind: provider.Transient, MayBeReceived: true, Means: "the server failed, perhaps after it took the message"},
	},
	Else: provider.Code{Kind: provider.Transient, MayBeReceived: true, Means: "a status that HTTP does not have, or 1xx"},
}
