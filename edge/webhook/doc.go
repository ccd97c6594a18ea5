// Package webhook speaks Standard Webhooks 1.0: it signs, sends and verifies notifications.
//
// A notification is a POST with a JSON body and three headers: webhook-id names the event and is the same at every try, webhook-timestamp is
// the time of the try in seconds since 1970, and webhook-signature holds one signature for each secret in force, parted by blanks:
//
//	v1,base64(HMAC-SHA256(key, id "." timestamp "." body))
//
// A secret is the text "whsec_" and the base64 of its key. While a secret is being exchanged both sign, so that receivers may change over
// when it suits them. A receiver in Go needs [ParseSecret] and [Verify] only:
//
//	id, err := webhook.Verify(r.Header, body, time.Now(), secret)
//
// Notifications come at least once and in no particular order: a receiver remembers the ids that it has taken.
//
// Source: the Standard Webhooks specification, version 1.0.0, sections "Payload structure", "Webhook Metadata", "Signature scheme" and
// "Considerations when sending".
package webhook
