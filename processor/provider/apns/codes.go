package apns

import "github.com/weirhq/weir/processor/provider"

// codes is what the reasons of Apple's answers mean. A bad device token is refused and
// not suppressed: every token is bad at the wrong endpoint (sandbox or production), and
// one wrong word in a policy must not take all devices off the list. What Apple says is
// gone (410) is gone.
var codes = provider.Codes{
	Sources: []provider.Source{
		{Title: "Apple: Handling notification responses from APNs", URL: "https://developer.apple.com/documentation/usernotifications/handling-notification-responses-from-apns"},
		{Title: "Apple: Handling error responses from Apple Push Notification service", URL: "https://developer.apple.com/documentation/usernotifications/handling-error-responses-from-apns"},
	},
	Send: []provider.Code{
		{Code: "BadCollapseId", Kind: provider.Permanent, Means: "400: the collapse id is longer than 64 bytes"},
		{Code: "BadDeviceToken", Kind: provider.Permanent, OfRecipient: true, Means: "400: the device token is bad, or is of the other endpoint (sandbox or production)"},
		{Code: "BadExpirationDate", Kind: provider.Permanent, Means: "400: bad expiration date"},
		{Code: "BadMessageId", Kind: provider.Permanent, Means: "400: the message's id is no UUID"},
		{Code: "BadPriority", Kind: provider.Permanent, Means: "400: bad priority (settings.priority)"},
		{Code: "BadTopic", Kind: provider.Permanent, Means: "400: bad topic (settings.topic)"},
		{Code: "DeviceTokenNotForTopic", Kind: provider.Permanent, OfRecipient: true, Means: "400: the device token is another app's (settings.topic)"},
		{Code: "DuplicateHeaders", Kind: provider.Permanent, Means: "400: a header stands twice"},
		{Code: "IdleTimeout", Kind: provider.Transient, Means: "400: the connection was idle for too long"},
		{Code: "InvalidPushType", Kind: provider.Permanent, Means: "400: bad push type (settings.push_type)"},
		{Code: "MissingDeviceToken", Kind: provider.Permanent, OfRecipient: true, Means: "400: no device token"},
		{Code: "MissingTopic", Kind: provider.Permanent, Means: "400: no topic (settings.topic)"},
		{Code: "PayloadEmpty", Kind: provider.Permanent, Means: "400: nothing to show"},
		{Code: "TopicDisallowed", Kind: provider.Permanent, Means: "400: the topic is not allowed (settings.topic)"},
		{Code: "BadCertificate", Kind: provider.Transient, Means: "403: bad certificate"},
		{Code: "BadCertificateEnvironment", Kind: provider.Transient, Means: "403: a certificate of the other endpoint"},
		{Code: "ExpiredProviderToken", Kind: provider.Transient, Means: "403: Weir's token is over an hour old; it is made anew (is this machine's clock right?)"},
		{Code: "Forbidden", Kind: provider.Transient, Means: "403: not allowed"},
		{Code: "InvalidProviderToken", Kind: provider.Transient, Means: "403: the credentials are refused (settings.key, key_id, team_id)"},
		{Code: "MissingProviderToken", Kind: provider.Transient, Means: "403: no credentials"},
		{Code: "UnrelatedKeyIdInToken", Kind: provider.Transient, Means: "403: the key is not the one that this connection began with"},
		{Code: "BadEnvironmentKeyIdInToken", Kind: provider.Transient, Means: "403: the key is for the other endpoint (sandbox or production)"},
		{Code: "BadPath", Kind: provider.Permanent, Means: "404: bad path"},
		{Code: "MethodNotAllowed", Kind: provider.Permanent, Means: "405: the method was not POST"},
		{Code: "ExpiredToken", Kind: provider.Permanent, Suppress: "invalid", Means: "410: the device token has expired"},
		{Code: "Unregistered", Kind: provider.Permanent, Suppress: "invalid", Means: "410: the app is no longer on the device"},
		{Code: "PayloadTooLarge", Kind: provider.Permanent, Means: "413: the payload is too large"},
		{Code: "TooManyProviderTokenUpdates", Kind: provider.Throttled, OfProvider: true, Means: "429: the token was made anew too often"},
		{Code: "TooManyRequests", Kind: provider.Throttled, OfRecipient: true, Means: "429: too many notifications to this device"},
		{Code: "InternalServerError", Kind: provider.Transient, MayBeReceived: true, Means: "500: a fault within APNs"},
		{Code: "ServiceUnavailable", Kind: provider.Transient, Means: "503: APNs is unavailable"},
		{Code: "Shutdown", Kind: provider.Transient, Means: "503: this server of APNs is shutting down"},
	},
	Else: provider.Code{Kind: provider.Permanent, Means: "APNs refused the notification"},
}
