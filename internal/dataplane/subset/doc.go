// Package subset says which hosts of a cluster a request may go to by what is
// written in the metadata of both under envoy.lb (LB-15): the criteria of a
// route, and the selectors of a cluster, whose keys divide its hosts.
//
// A subset has a name: the keys of a selector with the values that its hosts have
// in common. Names are made when configuration is read, so that a request finds
// its subset by one look-up.
package subset
