package xdsserver

import (
	"time"

	"github.com/xebec-proxy/xebec/xds"
)

// Client is one open stream, or one subscription of a client that polls, as the
// server sees it.
type Client struct {
	// ID numbers the streams of this server; it is never used twice.
	ID   uint64    `json:"id"`
	Node *xds.Node `json:"node"`
	// Group is the group whose resources the client gets.
	Group string `json:"group"`
	// Peer is the client's address.
	Peer string `json:"peer"`
	// Variant is "sotw", "delta" or, for a client that polls, "rest".
	Variant string `json:"variant"`
	// Aggregated is true for ADS; otherwise the stream carries one type.
	Aggregated bool      `json:"aggregated"`
	Connected  time.Time `json:"connected"`
	// Types describes the stream's subscriptions, in sending order.
	Types []TypeStatus `json:"types"`
}

// Config states of a type or resource, as
// envoy.service.status.v3.ConfigStatus names them (XD-02).
const (
	NotSent  = "NOT_SENT"
	Stale    = "STALE"
	Synced   = "SYNCED"
	Rejected = "ERROR"
)

// TypeStatus is the state of one subscription of a client.
type TypeStatus struct {
	TypeURL string `json:"type_url"`
	// State is the worst state of its resources: ERROR, STALE, NOT_SENT, SYNCED.
	State string `json:"state"`
	// Wildcard and Names (a count) describe the subscription.
	Wildcard bool `json:"wildcard"`
	Names    int  `json:"names"`
	// SentVersion and AckedVersion are those of the last response and of the
	// last accepted one.
	SentVersion  string    `json:"sent_version,omitempty"`
	AckedVersion string    `json:"acked_version,omitempty"`
	Sent         time.Time `json:"sent,omitzero"`
	Acked        time.Time `json:"acked,omitzero"`
	// Revision is the group's revision the client has been brought up to, all
	// of it acknowledged if State is SYNCED.
	Revision  uint64 `json:"revision"`
	Responses uint64 `json:"responses"`
	Acks      uint64 `json:"acks"`
	Nacks     uint64 `json:"nacks"`
	// Nack is the last rejection, nil once what followed it was accepted.
	Nack *Nack `json:"nack,omitempty"`
}

// Nack is a response that a client rejected.
type Nack struct {
	Time    time.Time `json:"time"`
	Version string    `json:"version"`
	Nonce   string    `json:"nonce"`
	Code    int32     `json:"code"`
	// Message is the client's own, cut at 4 KiB.
	Message string `json:"message"`
	// Resources lists what was rejected, with where it was loaded from.
	Resources []RejectedResource `json:"resources,omitempty"`
}

// RejectedResource is a resource that a NACK is about.
type RejectedResource struct {
	Name   string       `json:"name"`
	Origin xds.Position `json:"origin,omitzero"`
}

// ResourceStatus is the state of one resource at one client.
type ResourceStatus struct {
	TypeURL string `json:"type_url"`
	Name    string `json:"name"`
	// State is NOT_SENT, STALE, SYNCED or ERROR.
	State   string       `json:"state"`
	Version string       `json:"version,omitempty"`
	Origin  xds.Position `json:"origin,omitzero"`
	Updated time.Time    `json:"updated,omitzero"`
	// Withheld says in words why a due resource has not been sent.
	Withheld string `json:"withheld,omitempty"`
	// Nack is set if State is ERROR.
	Nack *Nack `json:"nack,omitempty"`

	resource *xds.Resource
}
