// Package app puts the program's objects together: from settings to one
// running management server, with its source, its certificates, its admin
// pages and an orderly end.
package app
