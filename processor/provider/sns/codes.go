package sns

import (
	"slices"

	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/processor/provider/aws"
	"github.com/weirhq/weir/schemas"
)

var codes = provider.Codes{
	Sources: slices.Concat([]provider.Source{
		{Title: "Amazon SNS: Publish, errors", URL: "https://docs.aws.amazon.com/sns/latest/api/API_Publish.html"},
		{Title: "AWS SDK for Go v2, service/sns/types/errors.go", URL: "https://github.com/aws/aws-sdk-go-v2/blob/main/service/sns/types/errors.go"},
	}, aws.Sources),
	Send: slices.Concat([]provider.Code{
		{Code: "AuthorizationError", Kind: provider.Transient, Means: "the account may not do this"},
		{Code: "EndpointDisabled", Kind: provider.Permanent, OfRecipient: true, Suppress: schemas.SuppressInvalid, Means: "the device's token is no longer valid"},
		{Code: "NotFound", Kind: provider.Permanent, OfRecipient: true, Suppress: schemas.SuppressInvalid, Means: "there is no such endpoint"},
		{Code: "OptedOut", Kind: provider.Permanent, OfRecipient: true, Suppress: schemas.SuppressOptedOut, Means: "the number has opted out"},
		{Code: "InternalError", Kind: provider.Transient, MayBeReceived: true, Means: "an error within the service"},
		// The number, or anything else in the call.
		{Code: "InvalidParameter", Kind: provider.Permanent, Means: "something in the call is not valid, such as the number"},
		{Code: "ParameterValueInvalid", Kind: provider.Permanent, Means: "something in the call is not valid, such as the number"},
		{Code: "ValidationException", Kind: provider.Permanent, Means: "something in the call is not valid, such as the number"},
		{Code: "UserError", Kind: provider.Permanent, Means: "something in the call is not valid"},
		{Code: "InvalidSecurity", Kind: provider.Transient, Means: "the signature is wrong, or the call was not encrypted"},
		{Code: "PlatformApplicationDisabled", Kind: provider.Transient, Means: "the app's credentials at its push service are no longer valid"},
		{Code: "KMSThrottling", Kind: provider.Throttled, OfProvider: true, Means: "too many calls of the key service"},
		{Code: "KMSAccessDenied", Kind: provider.Permanent, Means: "the encryption key may not be used"},
		{Code: "KMSDisabled", Kind: provider.Permanent, Means: "the encryption key is disabled"},
		{Code: "KMSInvalidState", Kind: provider.Permanent, Means: "the encryption key cannot be used in its state"},
		{Code: "KMSNotFound", Kind: provider.Permanent, Means: "there is no such encryption key"},
		{Code: "KMSOptInRequired", Kind: provider.Permanent, Means: "the account has not subscribed to the key service"},
		{Code: "Throttled", Kind: provider.Throttled, OfProvider: true, Means: "too many calls"},
	}, aws.Common),
	Else: aws.Else,
}
