package resources

import (
	"testing"

	"google.golang.org/protobuf/proto"
)

func TestIndexIsTheInverseOfName(t *testing.T) {
	for _, i := range []int{0, 7, 4999, 99999} {
		if got, ok := Index([]byte(Name(i))); !ok || got != i {
			t.Errorf("Index(Name(%d)) = %d, %t", i, got, ok)
		}
	}
	for _, name := range []string{
		"", "x", Name(1) + "x", "inbound||8080||svc-00001.default.svc.cluster.local",
		"outbound|8080||svc-0000x.default.svc.cluster.local", "outbound|8080||svc-00001.default.svc.cluster.locaX",
	} {
		if i, ok := Index([]byte(name)); ok {
			t.Errorf("Index(%q) = %d, want none", name, i)
		}
	}
}

func TestGenerationReadsWhatNewWrote(t *testing.T) {
	for k := range Kinds {
		for _, gen := range []int{0, 1, 999, 1000, 123456} {
			b, err := proto.Marshal(New(k, 3, gen))
			if err != nil {
				t.Fatal(err)
			}
			if got, err := Generation(k, b); err != nil || got != gen {
				t.Errorf("%v: Generation = %d, %v; want %d", k, got, err, gen)
			}
		}
	}
}

func TestGenerationOfForeignBytesFails(t *testing.T) {
	for k := range Kinds {
		for _, b := range [][]byte{nil, {0xff}, {0x0a, 0x05, 'a'}} {
			if g, err := Generation(k, b); err == nil {
				t.Errorf("%v: Generation(%x) = %d, want an error", k, b, g)
			}
		}
	}
}

func TestEveryGenerationDiffers(t *testing.T) {
	for k := range Kinds {
		if proto.Equal(New(k, 1, 4), New(k, 1, 5)) || proto.Equal(New(k, 1, 4), New(k, 2, 4)) {
			t.Errorf("%v: two different resources are equal", k)
		}
	}
}
