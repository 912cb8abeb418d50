package bootstrap

const envoyTemplate = `# Bootstrap for Envoy, written by "xebec bootstrap envoy".
node:
  id: {{q .E.NodeID}}
  cluster: {{q .E.NodeCluster}}
{{- if .E.AdminPort}}
admin:
  address:
    socket_address: {address: 127.0.0.1, port_value: {{.E.AdminPort}}}
{{- end}}
dynamic_resources:
{{- if .E.Aggregated}}
  # Everything comes on one stream: in your files, write config sources as
  # "{ads: {}, resource_api_version: V3}".
  ads_config:
    api_type: {{.API}}
    transport_api_version: V3
    set_node_on_first_message_only: true
    grpc_services:
    - envoy_grpc: {cluster_name: xebec_xds}
  cds_config: {ads: {}, resource_api_version: V3}
  lds_config: {ads: {}, resource_api_version: V3}
{{- else}}
  # Each type has a stream of its own: in your files, write config sources as
  # api_config_source like these.
  cds_config:
    resource_api_version: V3
    api_config_source:
      api_type: {{.API}}
      transport_api_version: V3
      set_node_on_first_message_only: true
      grpc_services:
      - envoy_grpc: {cluster_name: xebec_xds}
  lds_config:
    resource_api_version: V3
    api_config_source:
      api_type: {{.API}}
      transport_api_version: V3
      set_node_on_first_message_only: true
      grpc_services:
      - envoy_grpc: {cluster_name: xebec_xds}
{{- end}}
{{- if .E.LoadReports}}
cluster_manager:
  # Tells the server how much traffic each cluster gets (LRS).
  load_stats_config:
    api_type: GRPC
    transport_api_version: V3
    grpc_services:
    - envoy_grpc: {cluster_name: xebec_xds}
{{- end}}
static_resources:
  clusters:
  - name: xebec_xds
    type: {{.Target.Type}}
    connect_timeout: 5s
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config:
          http2_protocol_options:
            # Notices a server that has gone without saying so.
            connection_keepalive: {interval: 30s, timeout: 5s}
    load_assignment:
      cluster_name: xebec_xds
      endpoints:
      - lb_endpoints:
        - endpoint:
            address:
              socket_address: {address: {{q .Target.Host}}, port_value: {{.Target.Port}}}
{{- with .E.TLS}}{{if .CA}}
    transport_socket:
      name: envoy.transport_sockets.tls
      typed_config:
        "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext
        sni: {{q .ServerName}}
        common_tls_context:
          alpn_protocols: [h2]
          validation_context:
            trusted_ca: {filename: {{q .CA}}}
            match_typed_subject_alt_names:
            - san_type: {{$.SANType}}
              matcher: {exact: {{q .ServerName}}}
{{- if .Cert}}
          tls_certificates:
          - certificate_chain: {filename: {{q .Cert}}}
            private_key: {filename: {{q .Key}}}
{{- end}}
{{- end}}{{end}}
`
