package client_test

import (
	"testing"
	"time"

	"github.com/xebec-proxy/xebec/internal/wire/client"
	"github.com/xebec-proxy/xebec/xds"
)

// tape yields words from a fuzzer's bytes; zero after the end.
type tape []byte

func (t *tape) next() byte {
	if len(*t) == 0 {
		return 0
	}
	b := (*t)[0]
	*t = (*t)[1:]
	return b
}

func (t *tape) pick(words ...string) string { return words[int(t.next())%len(words)] }

func (t *tape) name() string {
	return t.pick("a", "b", "c", "al", "*", "", globAll, globOne, globTwo, "xdstp://", "xdstp://a/x?b=1&a=2", "xdstp://a/x?a=2&b=1", "\xff\n")
}

func (t *tape) typ() xds.Type {
	typ, _ := xds.LookupType(t.pick("CDS", "EDS", "VHDS", "LDS"))
	return typ
}

func (t *tape) response() *client.Response {
	r := &client.Response{TypeURL: t.typ().URL, Version: t.pick("", "1", "2"), Nonce: t.pick("", "n", "m")}
	for range t.next() % 6 {
		r.Resources = append(r.Resources, t.raw(r.TypeURL))
	}
	for range t.next() % 4 {
		r.Removed = append(r.Removed, t.name())
	}
	for range t.next() % 3 {
		st := client.Status{Code: int32(t.next() % 17), Message: t.pick("", "no", "\xff")}
		r.Errors = append(r.Errors, client.ResourceError{Name: t.name(), Status: st})
	}
	return r
}

func (t *tape) raw(typeURL string) client.Raw {
	flags := t.next()
	raw := client.Raw{TypeURL: typeURL, HasBody: flags&1 == 0, TTL: time.Duration(int8(t.next())) * time.Second}
	name, version := t.name(), t.pick("1", "2", "bad", "")
	if raw.HasBody {
		raw.Body = []byte(name + " " + version)
	}
	if flags&2 == 0 {
		raw.Name, raw.Version = name, version
	}
	if flags&4 != 0 {
		raw.Aliases = append(raw.Aliases, t.name(), t.name())
	}
	if flags&8 != 0 {
		raw.TypeURL = "other"
	}
	if flags&16 != 0 {
		raw.Body = []byte("unreadable")
	}
	return raw
}

// FuzzChannel lets a server say anything and a user do anything: nothing
// panics, what is known stays consistent and bounded, and each response that is
// not ignored is answered once.
// Proves XC-08.
func FuzzChannel(f *testing.F) {
	for _, seed := range []string{"", "\x00\x00\x00\x01", "\x01\x00\x04\x03\x05\x00\x07\x00\x03\x00\x01\x02\x06\x00\x00\x00\x00", "0123456789abcdefghijklmnopqrstuvwxyz"} {
		f.Add([]byte(seed), uint8(len(seed)))
	}
	f.Fuzz(func(t *testing.T, data []byte, mode uint8) {
		if len(data) > 4096 {
			return
		}
		fuzzChannel(t, tape(data), mode)
	})
}

func fuzzChannel(t *testing.T, in tape, mode uint8) {
	cfg := client.Config{
		Delta: mode&1 != 0, WholeResponses: mode&2 != 0, ExplicitWildcard: mode&4 != 0, TransientTimeout: mode&8 != 0, Checker: &checker{},
	}
	if mode&16 != 0 {
		cfg.Limit = &client.Limit{Burst: 3, PerSecond: 1}
	}
	ch := client.New(cfg)
	now := time.Unix(0, 0)
	answers, open := 0, false
	for len(in) > 0 {
		switch in.next() % 10 {
		case 0, 1:
			ch.Subscribe(in.typ(), in.name())
		case 2:
			ch.Unsubscribe(in.typ().URL, in.name())
		case 3:
			ch.Open(now)
			answers, open = 0, true
		case 4:
			ch.Closed(now)
			answers, open = 0, false
		case 5, 6:
			if out := ch.Receive(now, in.response()); !out.Ignored {
				answers++
			}
		case 7:
			now = now.Add(time.Duration(in.next()) * 100 * time.Millisecond)
			ch.Expire(now)
		case 8:
			name := in.name()
			ch.Seed(in.typ().URL, client.Held{Name: name, Version: in.pick("1", "2"), Body: []byte(name + " 1"), Aliases: []string{in.name()}})
		case 9:
			u := in.typ().URL
			ch.Await(u, in.name())
			ch.Repeat(u, in.name())
			ch.Forget(u, in.name())
		}
		if in.next()%3 == 0 {
			if r := ch.Next(now); r != nil && r.Answer {
				answers--
			}
		}
		if err := ch.Verify(); err != nil {
			t.Fatal(err)
		}
	}
	answers -= fuzzDrain(t, ch, &now)
	if open && answers != 0 {
		t.Fatalf("%d responses were not answered", answers)
	}
	if n := ch.Names(); n > 4*30 {
		t.Fatalf("%d names are known", n)
	}
}

// fuzzDrain takes every request that is due and counts the answers.
func fuzzDrain(t *testing.T, ch *client.Channel, now *time.Time) (answers int) {
	for n := 0; ch.Stats().Pending > 0; n++ {
		if n > 100_000 {
			t.Fatal("requests without end")
		}
		r := ch.Next(*now)
		if r == nil {
			d, ok := ch.Deadline()
			if !ok {
				t.Fatal("a request is pending, but there is no deadline")
			}
			*now = d
			ch.Expire(*now)
			continue
		}
		if r.Answer {
			answers++
		}
		if len(r.Error) > 4<<10 {
			t.Fatal("the text of a NACK is too long")
		}
	}
	return answers
}
