// Package tencent is the provider of type tencent-sms: short messages by Tencent
// Cloud's SendSms, version 2021-01-11, and its receipts and replies by callback.
//
// Tencent sends templates that it has approved, with parameters by position, also to
// numbers abroad: a message without a template of Tencent's is not sent. One call is
// one message to one number, and nothing is pulled: docs/provider-tencent-sms.md.
package tencent
