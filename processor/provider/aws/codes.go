package aws

import "github.com/weirhq/weir/processor/provider"

// Sources of Common.
var Sources = []provider.Source{
	{Title: "AWS: common error types", URL: "https://docs.aws.amazon.com/awsconsolehelpdocs/latest/gsg/common-errors.html"},
	{Title: "Amazon SES: API error codes", URL: "https://docs.aws.amazon.com/ses/latest/DeveloperGuide/api-error-codes.html"},
}

// Common are the codes that every service of Amazon's has.
var Common = []provider.Code{
	{Code: "AccessDeniedException", Kind: provider.Transient, Means: "the account may not do this: its policy (IAM) says so"},
	{Code: "ExpiredTokenException", Kind: provider.Transient, Means: "the session token has expired"},
	{Code: "IncompleteSignature", Kind: provider.Transient, Means: "the signature is not whole"},
	{Code: "InvalidClientTokenId", Kind: provider.Transient, Means: "the access key is not known"},
	{Code: "UnrecognizedClientException", Kind: provider.Transient, Means: "the access key is not known"},
	{Code: "MissingAuthenticationToken", Kind: provider.Transient, Means: "the call has no access key"},
	{Code: "NotAuthorized", Kind: provider.Transient, Means: "the account may not do this"},
	{Code: "OptInRequired", Kind: provider.Transient, Means: "the account has not subscribed to the service"},
	{Code: "RequestExpired", Kind: provider.Transient, Means: "the clock here differs from the service's by 15 minutes or more"},
	{Code: "RequestTimeoutException", Kind: provider.Transient, Means: "the request did not arrive in time"},
	{Code: "RequestAbortedException", Kind: provider.Transient, Means: "the request was broken off"},
	{Code: "RequestEntityTooLargeException", Kind: provider.Permanent, Means: "the message is too big"},
	{Code: "MalformedHttpRequestException", Kind: provider.Permanent, Means: "the service did not understand the request"},
	{Code: "InternalFailure", Kind: provider.Transient, MayBeReceived: true, Means: "an error within the service"},
	{Code: "ServiceUnavailable", Kind: provider.Transient, Means: "the service is not available just now"},
	{Code: "ThrottlingException", Kind: provider.Throttled, OfProvider: true, Means: "too many calls, or the sending quota is used up"},
	{Code: "Throttling", Kind: provider.Throttled, OfProvider: true, Means: "too many calls"},
	{Code: "ValidationError", Kind: provider.Permanent, Means: "the service did not understand the request"},
}

// Else is a code that no table has.
var Else = provider.Code{Kind: provider.Permanent, Means: "refused"}
