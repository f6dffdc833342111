{{- /*
Everything the operator may do, in one list. The verbs below are the verbs it uses: a test compares them with the API server's audit
log. Whoever adds one names its purpose; whoever removes the last use removes the verb.

Not here, and never to be: wildcards, secrets, configmaps, roles and bindings, custom resource definitions, webhooks,
writes to nodes, pods/exec, impersonation.
*/ -}}

{{- /* On cluster-scoped kinds: a ClusterRole, also when watchNamespaces is set. */ -}}
{{- define "carillon.permissions.cluster" -}}
# Which nodes exist, and whether a pod fits there.
- apiGroups: [""]
  resources: [nodes]
  verbs: [list, watch]
{{- end -}}

{{- /* On namespaced kinds: a ClusterRole, or a Role in each of watchNamespaces. */ -}}
{{- define "carillon.permissions.namespaced" -}}
# Of BroadcastJobs and of Jobs. get: is it ours after AlreadyExists, is it gone when the cache misses it. patch: taking off our finalizer
# once the result is stored.
- apiGroups: [""]
  resources: [pods]
  verbs: [create, delete, get, list, patch, watch]
# get: is a job that the cache misses really gone, before its pods are let go. delete: ttlSecondsAfterFinished, and runs of a CronJob
# that are replaced or past its history limits. create: runs of a CronJob; patch: taking off our finalizer once a run is recorded. Specs
# are never changed.
- apiGroups: [carillon.dev]
  resources: [broadcastjobs]
  verbs: [create, delete, get, list, patch, watch]
- apiGroups: [carillon.dev]
  resources: [broadcastjobs/status]
  verbs: [patch]
# Owner references with blockOwnerDeletion, where the admission plugin OwnerReferencesPermissionEnforcement is on. No request is
# made with it, the plugin asks.
- apiGroups: [carillon.dev]
  resources: [broadcastjobs/finalizers]
  verbs: [update]
- apiGroups: [carillon.dev]
  resources: [cronjobs]
  verbs: [get, list, watch]
- apiGroups: [carillon.dev]
  resources: [cronjobs/status]
  verbs: [patch]
# As broadcastjobs/finalizers.
- apiGroups: [carillon.dev]
  resources: [cronjobs/finalizers]
  verbs: [update]
# Runs of CronJobs, as broadcastjobs above. Jobs that are served: get and delete, for ttlSecondsAfterFinished.
- apiGroups: [batch]
  resources: [jobs]
  verbs: [create, delete, get, list, patch, watch]
- apiGroups: [batch]
  resources: [jobs/status]
  verbs: [patch]
# As broadcastjobs/finalizers.
- apiGroups: [batch]
  resources: [jobs/finalizers]
  verbs: [update]
{{- if has "cronjobs" .Values.serveNative }}
# Native CronJobs in place of kube-controller-manager.
- apiGroups: [batch]
  resources: [cronjobs]
  verbs: [get, list, watch]
- apiGroups: [batch]
  resources: [cronjobs/status]
  verbs: [patch]
- apiGroups: [batch]
  resources: [cronjobs/finalizers]
  verbs: [update]
{{- end }}
# The record of what ran where. Never deleted by the operator: slices are garbage collected with their job.
- apiGroups: [carillon.dev]
  resources: [noderesultslices]
  verbs: [create, get, list, patch, watch]
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create]
{{- end -}}

{{- /* In the release's own namespace: a Role. */ -}}
{{- define "carillon.permissions.lease" -}}
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [{{ include "carillon.leaseName" . | quote }}]
  verbs: [get, update]
# A create can not be limited by name: the name is not known to the authorizer.
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create]
{{- end -}}
