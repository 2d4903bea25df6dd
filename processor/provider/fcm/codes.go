package fcm

import "github.com/weirhq/weir/processor/provider"

// codes is what the errors of FCM mean: the errorCode of its FcmError where there is
// one, else the status that all of Google's interfaces have. INVALID_ARGUMENT is of the
// registration token when it says so, and then stands as INVALID_ARGUMENT:token.
var codes = provider.Codes{
	Sources: []provider.Source{
		{Title: "Firebase: FCM error codes", URL: "https://firebase.google.com/docs/cloud-messaging/error-codes"},
		{Title: "Firebase: ErrorCode of the FCM HTTP v1 API", URL: "https://firebase.google.com/docs/reference/fcm/rest/v1/ErrorCode"},
		{Title: "Google: google.rpc.Code", URL: "https://github.com/googleapis/googleapis/blob/master/google/rpc/code.proto"},
	},
	Send: []provider.Code{
		{Code: "UNSPECIFIED_ERROR", Kind: provider.Transient, MayBeReceived: true, Means: "FCM says nothing more of this error"},
		{Code: "INVALID_ARGUMENT", Kind: provider.Permanent, Means: "400: something of the message is invalid, or it is over 4096 bytes"},
		{Code: "INVALID_ARGUMENT:token", Kind: provider.Permanent, Suppress: "invalid", Means: "400: the registration token is none"},
		{Code: "UNREGISTERED", Kind: provider.Permanent, Suppress: "invalid", Means: "404: the app is no longer on the device, or the token was replaced"},
		{Code: "SENDER_ID_MISMATCH", Kind: provider.Permanent, OfRecipient: true, Means: "403: the registration token is another project's"},
		{Code: "QUOTA_EXCEEDED", Kind: provider.Throttled, Means: "429: too many messages, to all or to this device"},
		{Code: "UNAVAILABLE", Kind: provider.Transient, Means: "503: FCM is overloaded"},
		{Code: "INTERNAL", Kind: provider.Transient, MayBeReceived: true, Means: "500: a fault within FCM"},
		// Of one platform's devices: the others are well.
		{Code: "THIRD_PARTY_AUTH_ERROR", Kind: provider.Transient, OfRecipient: true, Means: "401: the APNs key or the web push key that Firebase has of you is missing or wrong"},
		{Code: "UNAUTHENTICATED", Kind: provider.Transient, Means: "401: the credentials are refused (settings.credentials)"},
		{Code: "PERMISSION_DENIED", Kind: provider.Transient, Means: "403: the service account may not send, or the API is not enabled in the project"},
		{Code: "NOT_FOUND", Kind: provider.Permanent, Means: "404: there is no such project, or the token is gone: FCM does not say which"},
		{Code: "RESOURCE_EXHAUSTED", Kind: provider.Throttled, OfProvider: true, Means: "429: a quota is used up"},
		{Code: "DEADLINE_EXCEEDED", Kind: provider.Transient, MayBeReceived: true, Means: "504: FCM took too long"},
	},
	Else: provider.Code{Kind: provider.Permanent, Means: "FCM refused the message"},
}
