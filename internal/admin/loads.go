package admin

import (
	"net/http"
	"time"

	"github.com/xebec-proxy/xebec/xdsserver/loadreport"
)

// loadJSON is the traffic of a cluster or a locality. Totals count since it was
// first reported; rates are per second over the newest reports.
type loadJSON struct {
	Successful uint64    `json:"successful"`
	Errors     uint64    `json:"errors"`
	Issued     uint64    `json:"issued"`
	InProgress uint64    `json:"in_progress"`
	Rates      ratesJSON `json:"rates"`
}

type ratesJSON struct {
	Successful float64 `json:"successful"`
	Errors     float64 `json:"errors"`
	Issued     float64 `json:"issued"`
}

type clusterLoadJSON struct {
	Cluster string `json:"cluster"`
	Service string `json:"service,omitempty"`
	loadJSON
	Dropped    uint64             `json:"dropped"`
	LastReport time.Time          `json:"last_report"`
	Localities []localityLoadJSON `json:"localities"`
}

type localityLoadJSON struct {
	Region   string `json:"region,omitempty"`
	Zone     string `json:"zone,omitempty"`
	SubZone  string `json:"sub_zone,omitempty"`
	Priority uint32 `json:"priority"`
	loadJSON
}

func (a *site) loads(w http.ResponseWriter, _ *http.Request) {
	list := []clusterLoadJSON{}
	for _, c := range a.Loads.Loads() {
		out := clusterLoadJSON{
			Cluster: c.Cluster, Service: c.Service, loadJSON: describeLoad(&c.Load),
			Dropped: c.Dropped.All, LastReport: c.LastReport.UTC(), Localities: []localityLoadJSON{},
		}
		for _, l := range c.Localities {
			out.Localities = append(out.Localities, localityLoadJSON{
				Region: l.Region, Zone: l.Zone, SubZone: l.SubZone, Priority: l.Priority, loadJSON: describeLoad(&l.Load),
			})
		}
		list = append(list, out)
	}
	writeJSON(w, http.StatusOK, map[string]any{"clusters": list})
}

func describeLoad(l *loadreport.Load) loadJSON {
	return loadJSON{
		Successful: l.Total.Successful, Errors: l.Total.Errors, Issued: l.Total.Issued, InProgress: l.InProgress,
		Rates: ratesJSON{Successful: l.Rates.Successful, Errors: l.Rates.Errors, Issued: l.Rates.Issued},
	}
}
