package tencent

import (
	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/schemas"
)

// codes are Tencent's. How a row was chosen:
//
//   - What is so for every message of the account (no messages left, money owed, a
//     quota of the account used up, an application stopped, a wrong key, a permission
//     that is missing, a wrong clock) is transient: provider.Codes says why.
//   - What holds for one number, one country or advertisements only is of the
//     recipient: throttled would silence the lane, and a plain failure open its
//     breaker, for everybody.
//   - A number is suppressed where all that Tencent says a code can mean is its owner's
//     refusal: a suppression holds for login codes too.
//   - Where Tencent itself did not hear from its next hop, nobody knows.
//   - What is wrong with a template, a signature or a parameter is permanent.
var codes = provider.Codes{
	Sources: []provider.Source{
		{Title: "短信 SendSms 错误码", URL: "https://cloud.tencent.com/document/api/382/55981"},
		{Title: "短信 错误码 (公共错误码)", URL: "https://cloud.tencent.com/document/api/382/52075"},
		{Title: "短信发送和回执状态错误码", URL: "https://cloud.tencent.com/document/api/382/59177"},
		{Title: "短信发送和状态回执错误码 (API 2.0)", URL: "https://cloud.tencent.com/document/product/382/3771"},
		{Title: "TencentCloud/tencentcloud-sdk-go, tencentcloud/sms/v20210111/errors.go", URL: "https://github.com/TencentCloud/tencentcloud-sdk-go"},
	},
	Send: []provider.Code{
		{Code: codeOK, Kind: provider.Accepted, Means: "taken"},

		// Too fast.
		{Code: "RequestLimitExceeded*", Kind: provider.Throttled, OfProvider: true, Means: "more calls than Tencent takes at once"},
		{Code: "LimitExceeded.PhoneNumberThirtySecondLimit", Kind: provider.Throttled, OfRecipient: true, Means: "more messages to this number than are allowed in 30 seconds"},
		{Code: "LimitExceeded.PhoneNumberOneHourLimit", Kind: provider.Throttled, OfRecipient: true, Means: "more messages to this number than are allowed in an hour"},
		{Code: "LimitExceeded.PhoneNumberDailyLimit", Kind: provider.Throttled, OfRecipient: true, Means: "more messages to this number than are allowed in a day"},
		{Code: "LimitExceeded.PhoneNumberSameContentDailyLimit", Kind: provider.Throttled, OfRecipient: true, Means: "the same content to this number more often than is allowed in a day"},
		{Code: "LimitExceeded.DeliveryFrequencyLimit", Kind: provider.Throttled, OfRecipient: true, Means: "more messages to this number than the console allows"},

		// Of the account: the operator mends it, and nothing is lost until then.
		{Code: "FailedOperation.InsufficientBalanceInSmsPackage", Kind: provider.Transient, Means: "the package has no messages left"},
		{Code: "UnauthorizedOperation.SerivceSuspendDueToArrears", Kind: provider.Transient, Means: "the account is stopped: money is owed"}, // sic, in older versions
		{Code: "UnauthorizedOperation.ServiceSuspendDueToArrears", Kind: provider.Transient, Means: "the account is stopped: money is owed"},
		{Code: "UnauthorizedOperation.SdkAppIdIsDisabled", Kind: provider.Transient, Means: "the application is stopped"},
		{Code: "LimitExceeded.AppDailyLimit", Kind: provider.Transient, Means: "the application's limit of messages a day is reached"},
		{Code: "LimitExceeded.AppMainlandChinaDailyLimit", Kind: provider.Transient, Means: "the application's limit of messages a day to the mainland is reached"},
		{Code: "LimitExceeded.AppGlobalDailyLimit", Kind: provider.Transient, Means: "the application's limit of messages a day abroad is reached"},
		{Code: "LimitExceeded.DailyLimit", Kind: provider.Transient, Means: "the account's limit of messages a day abroad is reached"},
		{Code: "LimitExceeded*", Kind: provider.Transient, Means: "a limit of the account is reached"},
		{Code: "InternalError.RequestTimeException", Kind: provider.Transient, Means: "this machine's clock is over 10 minutes off"},
		{Code: "AuthFailure.SignatureExpire", Kind: provider.Transient, Means: "this machine's clock is over 5 minutes off"},

		// Of the keys and what they may do.
		{Code: "AuthFailure*", Kind: provider.Transient, Means: "the key is wrong, disabled, or may not send"},
		{Code: "UnauthorizedOperation.SmsSdkAppIdVerifyFail", Kind: provider.Transient, Means: "the application is not of the key's account"},
		{Code: "UnauthorizedOperation.RequestPermissionDeny", Kind: provider.Transient, Means: "the account may not send"},
		{Code: "UnauthorizedOperation.RequestIpNotInWhitelist", Kind: provider.Transient, Means: "calls from this address are not allowed in the console"},
		{Code: "UnauthorizedOperation.IndividualUserMarketingSmsPermissionDeny", Kind: provider.Permanent, Means: "a person's account may not send advertisements"},
		{Code: "UnauthorizedOperation*", Kind: provider.Transient, Means: "the account may not do this"},
		{Code: "IpInBlacklist", Kind: provider.Permanent, Means: "calls from this address are refused"},
		{Code: "IpNotInWhitelist", Kind: provider.Permanent, Means: "calls from this address are not allowed"},
		{Code: "InternalError.SigFieldMissing", Kind: provider.Transient, Means: "the signature is missing"},
		{Code: "InternalError.SigVerificationFail", Kind: provider.Transient, Means: "the signature is wrong"},
		{Code: "InvalidParameter.AppidAndBizId", Kind: provider.Permanent, Means: "the application is not of this account"},
		{Code: "InvalidParameterValue.SdkAppIdNotExist", Kind: provider.Permanent, Means: "no such application"},

		// Tencent's own: it did not hear from its next hop, or failed.
		{Code: "InternalError.Timeout", Kind: provider.Unknown, Means: "Tencent had no answer in time from its sender"},
		{Code: "InternalError.SendAndRecvFail", Kind: provider.Unknown, Means: "Tencent had no answer from its sender"},
		{Code: "InternalError.ParseBackendResponseFail", Kind: provider.Unknown, Means: "Tencent could not read the carrier's answer"},
		{Code: "InternalError.JsonParseFail", Kind: provider.Permanent, Means: "the parameters cannot be read"},
		{Code: "InternalError.RestApiInterfaceNotExist", Kind: provider.Permanent, Means: "no such interface"},
		{Code: "InternalError*", Kind: provider.Transient, MayBeReceived: true, Means: "Tencent failed"},
		{Code: "FailedOperation.OtherError", Kind: provider.Permanent, Means: "refused: mostly a parameter that does not fit"},
		{Code: "FailedOperation.ParametersOtherError", Kind: provider.Permanent, Means: "refused without saying why"},
		{Code: "ResourceUnavailable*", Kind: provider.Transient, Means: "Tencent cannot just now"},
		{Code: "ResourceInsufficient*", Kind: provider.Transient, Means: "Tencent cannot just now"},
		{Code: "ServiceUnavailable*", Kind: provider.Transient, Means: "Tencent takes no calls just now"},

		// Of the number, its country, or advertisements.
		{Code: "FailedOperation.PhoneNumberInBlacklist", Kind: provider.Permanent, Suppress: schemas.SuppressOptedOut, Means: "the number is on a do-not-disturb list: its owner refused"},
		{Code: "InvalidParameterValue.IncorrectPhoneNumber", Kind: provider.Permanent, OfRecipient: true, Means: "not a number that Tencent sends to"},
		{Code: "FailedOperation.PhoneNumberParseFail", Kind: provider.Permanent, OfRecipient: true, Means: "not a number that Tencent can read"},
		{Code: "LimitExceeded.AppCountryOrRegionDailyLimit", Kind: provider.Transient, OfRecipient: true, Means: "the application's limit of messages a day to this country is reached"},
		{Code: "LimitExceeded.AppCountryOrRegionInBlacklist", Kind: provider.Permanent, OfRecipient: true, Means: "the console does not allow this country"},
		{Code: "UnsupportedOperation.UnsuportedRegion", Kind: provider.Permanent, OfRecipient: true, Means: "Tencent does not send to this country"}, // sic, in older versions
		{Code: "UnsupportedOperation.UnsupportedRegion", Kind: provider.Permanent, OfRecipient: true, Means: "Tencent does not send to this country"},
		{Code: "UnsupportedOperation.ChineseMainlandTemplateToGlobalPhone", Kind: provider.Permanent, OfRecipient: true, Means: "the template is for the mainland, and this number is not of it"},
		{Code: "UnsupportedOperation.GlobalTemplateToChineseMainlandPhone", Kind: provider.Permanent, OfRecipient: true, Means: "the template is for numbers abroad, and this one is of the mainland"},
		{Code: "FailedOperation.MarketingSendTimeConstraint", Kind: provider.Transient, OfRecipient: true, Means: "advertisements are sent from 8 to 22 o'clock only"},

		// Of the template, the signature or a parameter.
		{Code: "FailedOperation.SignatureIncorrectOrUnapproved", Kind: provider.Permanent, Means: "the account has no such approved signature"},
		{Code: "FailedOperation.TemplateIncorrectOrUnapproved", Kind: provider.Permanent, Means: "the account has no such approved template, or the parameters do not fit it"},
		{Code: "FailedOperation.TemplateUnapprovedOrNotExist", Kind: provider.Permanent, Means: "the account has no such approved template"},
		{Code: "FailedOperation.TemplateParamSetNotMatchApprovedTemplate", Kind: provider.Permanent, Means: "the parameters do not fit the template"},
		{Code: "FailedOperation.TemplateIdNotExist", Kind: provider.Permanent, Means: "the account has no such template"},
		{Code: "FailedOperation.ContainSensitiveWord", Kind: provider.Permanent, Means: "the content holds a forbidden word"},
		{Code: "FailedOperation.FailResolvePacket", Kind: provider.Permanent, Means: "the parameters cannot be read"},
		{Code: "FailedOperation.JsonParseFail", Kind: provider.Permanent, Means: "the parameters cannot be read"},
		{Code: "FailedOperation*", Kind: provider.Permanent, Means: "refused by Tencent"},
		{Code: "InvalidParameterValue.ContentLengthLimit", Kind: provider.Permanent, Means: "the content is too long"},
		{Code: "InvalidParameterValue.TemplateParameterFormatError", Kind: provider.Permanent, Means: "a template for codes takes up to 6 digits"},
		{Code: "InvalidParameterValue.TemplateParameterLengthLimit", Kind: provider.Permanent, Means: "a parameter is longer than a person's account may send"},
		{Code: "InvalidParameterValue.ProhibitedUseUrlInTemplateParameter", Kind: provider.Permanent, Means: "a parameter holds an address of the web"},
		{Code: "InvalidParameter.DirtyWordFound", Kind: provider.Permanent, Means: "a forbidden word"},
		{Code: "InvalidParameter*", Kind: provider.Permanent, Means: "a parameter does not fit"},
		{Code: "LimitExceeded.PhoneNumberCountLimit", Kind: provider.Permanent, Means: "too many numbers in a call"},
		{Code: "MissingParameter*", Kind: provider.Permanent, Means: "a parameter is missing"},
		{Code: "UnsupportedOperation*", Kind: provider.Permanent, Means: "not supported by Tencent"},
		{Code: "InvalidAction", Kind: provider.Permanent, Means: "no such call at this address"},
		{Code: "NoSuchVersion", Kind: provider.Permanent, Means: "no such version of the interface at this address"},
		{Code: "NoSuchProduct", Kind: provider.Permanent, Means: "no short messages at this address"},
	},
	Else: provider.Code{Kind: provider.Permanent, Means: "refused with a code that Weir does not know"},
	Receipt: []provider.Code{
		{Code: "DELIVRD", Kind: provider.Accepted, Means: "delivered"},
		{Code: "002", Kind: provider.Permanent, OfRecipient: true, Means: "switched off, suspended, or out of reach"},
		{Code: "-106", Kind: provider.Permanent, Means: "the carrier stopped a word of the content"},
	},
}
