# Generated from docs/endpoint.schema.json: python tooling/terraform_module.py

variable "stack" {
  description = "The stack's name."
  type        = string
}

variable "description" {
  description = "The stack's description."
  type        = string
  default     = null
}

variable "account" {
  description = "The account ID, in quotes. Default: the credentials' account."
  type        = string
  default     = null
}

variable "region" {
  description = "The Region. Default: the provider's Region."
  type        = string
  default     = null
}

variable "tags" {
  description = "Tags of all resources."
  type        = map(string)
  default     = null
}

variable "outputs" {
  description = "Outputs by ID: text with `$${Endpoint.endpoint_name}`."
  type        = map(string)
  default     = null
}

variable "artifact_stores" {
  description = <<-EOT
    ArtifactStore constructs by ID.

    - `bucket_name`: The bucket's name. Default: CloudFormation generates one.
    - `encryption_key`: A KMS key for the artifacts. Default: S3-managed keys.
    - `removal_policy`: Whether the bucket is deleted with the stack. Default: it is retained.
    - `server_access_logs_bucket`: The bucket for S3 server access logs. Default: none.
    - `server_access_logs_prefix`: The prefix of these logs. Default: none.
    - `share_with_account`: Let the stacks of another account use the store.
    - `share_with_organization`: Let the stacks of all accounts of an AWS organization use the store; see `share_with_account`.
  EOT
  type = map(object({
    bucket_name               = optional(string)
    encryption_key            = optional(string)
    removal_policy            = optional(string)
    server_access_logs_bucket = optional(string)
    server_access_logs_prefix = optional(string)
    share_with_account        = optional(list(object({ account_id = string, read_only = optional(bool) })))
    share_with_organization   = optional(list(object({ organization_id = string, read_only = optional(bool) })))
  }))
  default = null
}

variable "optimization_jobs" {
  description = <<-EOT
    OptimizationJob constructs by ID.

    - `model`: The source of the weights.
    - `techniques`: The techniques to apply, in order.
    - `instance_type`: The instance type to serve the model on, for instance `ml.g5.12xlarge`.
    - `artifact_store`: The store of the artifact, not a read-only one. Default: one store for the whole stack.
    - `environment`: Additional environment variables of the model's container. Default: none.
    - `server`: The model server and its settings. Default: vLLM, unless a technique needs another server.
    - `accelerator_partition`: The GPU partition type that a copy of the model occupies. Default: none; a copy uses whole GPUs.
    - `jobs`: The job's role and maximum runtime, and how long the deployment waits for it.
    - `network`: The VPC of the job and the model. Default: none.
    - `role`: The role that SageMaker assumes for the model, and for jobs without a role of their own. Default: one role for all models of the stack, without write permissions, and one for all jobs.
    - `wait`: Whether the deployment waits for the artifact. Default: yes.
  EOT
  type = map(object({
    model = object({
      huggingface = optional(object({
        model_id           = string
        revision           = optional(string)
        token_secret_arn   = optional(string)
        encryption_key_arn = optional(string)
        allow_pickle       = optional(bool)
        allow_code         = optional(bool)
        compute = optional(object({
          instance_type      = optional(string)
          instance_count     = optional(number)
          volume_size_gb     = optional(number)
          spot               = optional(bool)
          spot_wait_seconds  = optional(number)
          keep_alive_seconds = optional(number)
          environment        = optional(map(string))
        }))
      }))
      jumpstart = optional(object({ model_id = string, version = optional(string), accept_eula = optional(bool) }))
      s3 = optional(object({
        uri                = string
        accept_eula        = optional(bool)
        encryption_key_arn = optional(string)
        manifest_uri       = optional(string)
        manifest_etag      = optional(string)
      }))
    })
    techniques = list(object({
      compilation = optional(object({
        neuron = optional(object({
          tensor_parallel_degree  = optional(number)
          dtype                   = optional(string)
          maximum_batch_size      = optional(number)
          optimize_level          = optional(number)
          maximum_sequence_length = optional(number)
        }))
        tensorrt_llm = optional(object({
          tensor_parallel_degree = optional(number)
          maximum_input_length   = optional(number)
          maximum_output_length  = optional(number)
          maximum_batch_size     = optional(number)
        }))
      }))
      kv_cache = optional(object({
        fp8 = optional(object({ tensor_parallel_degree = optional(number) }))
      }))
      quantization = optional(object({
        awq = optional(object({
          tensor_parallel_degree = optional(number)
          checkpoint = optional(object({
            huggingface = optional(object({
              model_id           = string
              revision           = optional(string)
              token_secret_arn   = optional(string)
              encryption_key_arn = optional(string)
              allow_pickle       = optional(bool)
              allow_code         = optional(bool)
              compute = optional(object({
                instance_type      = optional(string)
                instance_count     = optional(number)
                volume_size_gb     = optional(number)
                spot               = optional(bool)
                spot_wait_seconds  = optional(number)
                keep_alive_seconds = optional(number)
                environment        = optional(map(string))
              }))
            }))
            jumpstart = optional(object({
              model_id    = string
              version     = optional(string)
              accept_eula = optional(bool)
            }))
            s3 = optional(object({
              uri                = string
              accept_eula        = optional(bool)
              encryption_key_arn = optional(string)
              manifest_uri       = optional(string)
              manifest_etag      = optional(string)
            }))
          }))
          group_size     = optional(number)
          ignored_layers = optional(list(string))
        }))
        fp8 = optional(object({
          tensor_parallel_degree = optional(number)
          checkpoint = optional(object({
            huggingface = optional(object({
              model_id           = string
              revision           = optional(string)
              token_secret_arn   = optional(string)
              encryption_key_arn = optional(string)
              allow_pickle       = optional(bool)
              allow_code         = optional(bool)
              compute = optional(object({
                instance_type      = optional(string)
                instance_count     = optional(number)
                volume_size_gb     = optional(number)
                spot               = optional(bool)
                spot_wait_seconds  = optional(number)
                keep_alive_seconds = optional(number)
                environment        = optional(map(string))
              }))
            }))
            jumpstart = optional(object({
              model_id    = string
              version     = optional(string)
              accept_eula = optional(bool)
            }))
            s3 = optional(object({
              uri                = string
              accept_eula        = optional(bool)
              encryption_key_arn = optional(string)
              manifest_uri       = optional(string)
              manifest_etag      = optional(string)
            }))
          }))
          scheme             = optional(string)
          ignored_layers     = optional(list(string))
          calibration_size   = optional(number)
          calibration_length = optional(number)
        }))
        smoothquant = optional(object({
          tensor_parallel_degree = optional(number)
          checkpoint = optional(object({
            huggingface = optional(object({
              model_id           = string
              revision           = optional(string)
              token_secret_arn   = optional(string)
              encryption_key_arn = optional(string)
              allow_pickle       = optional(bool)
              allow_code         = optional(bool)
              compute = optional(object({
                instance_type      = optional(string)
                instance_count     = optional(number)
                volume_size_gb     = optional(number)
                spot               = optional(bool)
                spot_wait_seconds  = optional(number)
                keep_alive_seconds = optional(number)
                environment        = optional(map(string))
              }))
            }))
            jumpstart = optional(object({
              model_id    = string
              version     = optional(string)
              accept_eula = optional(bool)
            }))
            s3 = optional(object({
              uri                = string
              accept_eula        = optional(bool)
              encryption_key_arn = optional(string)
              manifest_uri       = optional(string)
              manifest_etag      = optional(string)
            }))
          }))
          alpha            = optional(number)
          per_token        = optional(bool)
          per_channel      = optional(bool)
          calibration_size = optional(number)
        }))
        fp8_block = optional(object({
          tensor_parallel_degree = optional(number)
          compute = optional(object({
            instance_type      = optional(string)
            instance_count     = optional(number)
            volume_size_gb     = optional(number)
            spot               = optional(bool)
            spot_wait_seconds  = optional(number)
            keep_alive_seconds = optional(number)
            environment        = optional(map(string))
          }))
          checkpoint = optional(object({
            huggingface = optional(object({
              model_id           = string
              revision           = optional(string)
              token_secret_arn   = optional(string)
              encryption_key_arn = optional(string)
              allow_pickle       = optional(bool)
              allow_code         = optional(bool)
              compute = optional(object({
                instance_type      = optional(string)
                instance_count     = optional(number)
                volume_size_gb     = optional(number)
                spot               = optional(bool)
                spot_wait_seconds  = optional(number)
                keep_alive_seconds = optional(number)
                environment        = optional(map(string))
              }))
            }))
            jumpstart = optional(object({
              model_id    = string
              version     = optional(string)
              accept_eula = optional(bool)
            }))
            s3 = optional(object({
              uri                = string
              accept_eula        = optional(bool)
              encryption_key_arn = optional(string)
              manifest_uri       = optional(string)
              manifest_etag      = optional(string)
            }))
          }))
          ignored_layers = optional(list(string))
        }))
        fp8_dynamic = optional(object({
          tensor_parallel_degree = optional(number)
          compute = optional(object({
            instance_type      = optional(string)
            instance_count     = optional(number)
            volume_size_gb     = optional(number)
            spot               = optional(bool)
            spot_wait_seconds  = optional(number)
            keep_alive_seconds = optional(number)
            environment        = optional(map(string))
          }))
          checkpoint = optional(object({
            huggingface = optional(object({
              model_id           = string
              revision           = optional(string)
              token_secret_arn   = optional(string)
              encryption_key_arn = optional(string)
              allow_pickle       = optional(bool)
              allow_code         = optional(bool)
              compute = optional(object({
                instance_type      = optional(string)
                instance_count     = optional(number)
                volume_size_gb     = optional(number)
                spot               = optional(bool)
                spot_wait_seconds  = optional(number)
                keep_alive_seconds = optional(number)
                environment        = optional(map(string))
              }))
            }))
            jumpstart = optional(object({
              model_id    = string
              version     = optional(string)
              accept_eula = optional(bool)
            }))
            s3 = optional(object({
              uri                = string
              accept_eula        = optional(bool)
              encryption_key_arn = optional(string)
              manifest_uri       = optional(string)
              manifest_etag      = optional(string)
            }))
          }))
          ignored_layers = optional(list(string))
        }))
        w4a16 = optional(object({
          tensor_parallel_degree = optional(number)
          compute = optional(object({
            instance_type      = optional(string)
            instance_count     = optional(number)
            volume_size_gb     = optional(number)
            spot               = optional(bool)
            spot_wait_seconds  = optional(number)
            keep_alive_seconds = optional(number)
            environment        = optional(map(string))
          }))
          checkpoint = optional(object({
            huggingface = optional(object({
              model_id           = string
              revision           = optional(string)
              token_secret_arn   = optional(string)
              encryption_key_arn = optional(string)
              allow_pickle       = optional(bool)
              allow_code         = optional(bool)
              compute = optional(object({
                instance_type      = optional(string)
                instance_count     = optional(number)
                volume_size_gb     = optional(number)
                spot               = optional(bool)
                spot_wait_seconds  = optional(number)
                keep_alive_seconds = optional(number)
                environment        = optional(map(string))
              }))
            }))
            jumpstart = optional(object({
              model_id    = string
              version     = optional(string)
              accept_eula = optional(bool)
            }))
            s3 = optional(object({
              uri                = string
              accept_eula        = optional(bool)
              encryption_key_arn = optional(string)
              manifest_uri       = optional(string)
              manifest_etag      = optional(string)
            }))
          }))
          ignored_layers     = optional(list(string))
          calibration_data   = optional(string)
          calibration_size   = optional(number)
          calibration_length = optional(number)
          algorithm          = optional(string)
        }))
        nvfp4 = optional(object({
          tensor_parallel_degree = optional(number)
          compute = optional(object({
            instance_type      = optional(string)
            instance_count     = optional(number)
            volume_size_gb     = optional(number)
            spot               = optional(bool)
            spot_wait_seconds  = optional(number)
            keep_alive_seconds = optional(number)
            environment        = optional(map(string))
          }))
          checkpoint = optional(object({
            huggingface = optional(object({
              model_id           = string
              revision           = optional(string)
              token_secret_arn   = optional(string)
              encryption_key_arn = optional(string)
              allow_pickle       = optional(bool)
              allow_code         = optional(bool)
              compute = optional(object({
                instance_type      = optional(string)
                instance_count     = optional(number)
                volume_size_gb     = optional(number)
                spot               = optional(bool)
                spot_wait_seconds  = optional(number)
                keep_alive_seconds = optional(number)
                environment        = optional(map(string))
              }))
            }))
            jumpstart = optional(object({
              model_id    = string
              version     = optional(string)
              accept_eula = optional(bool)
            }))
            s3 = optional(object({
              uri                = string
              accept_eula        = optional(bool)
              encryption_key_arn = optional(string)
              manifest_uri       = optional(string)
              manifest_etag      = optional(string)
            }))
          }))
          ignored_layers     = optional(list(string))
          calibration_data   = optional(string)
          calibration_size   = optional(number)
          calibration_length = optional(number)
        }))
        mxfp4 = optional(object({
          tensor_parallel_degree = optional(number)
          compute = optional(object({
            instance_type      = optional(string)
            instance_count     = optional(number)
            volume_size_gb     = optional(number)
            spot               = optional(bool)
            spot_wait_seconds  = optional(number)
            keep_alive_seconds = optional(number)
            environment        = optional(map(string))
          }))
          checkpoint = optional(object({
            huggingface = optional(object({
              model_id           = string
              revision           = optional(string)
              token_secret_arn   = optional(string)
              encryption_key_arn = optional(string)
              allow_pickle       = optional(bool)
              allow_code         = optional(bool)
              compute = optional(object({
                instance_type      = optional(string)
                instance_count     = optional(number)
                volume_size_gb     = optional(number)
                spot               = optional(bool)
                spot_wait_seconds  = optional(number)
                keep_alive_seconds = optional(number)
                environment        = optional(map(string))
              }))
            }))
            jumpstart = optional(object({
              model_id    = string
              version     = optional(string)
              accept_eula = optional(bool)
            }))
            s3 = optional(object({
              uri                = string
              accept_eula        = optional(bool)
              encryption_key_arn = optional(string)
              manifest_uri       = optional(string)
              manifest_etag      = optional(string)
            }))
          }))
          ignored_layers = optional(list(string))
        }))
      }))
      sharding = optional(object({
        fast_load = optional(object({ tensor_parallel_degree = optional(number) }))
      }))
      speculative_decoding = optional(object({
        sagemaker_draft = optional(object({
          tensor_parallel_degree = optional(number)
          speculative_tokens     = optional(number)
        }))
        jumpstart_draft = optional(object({
          tensor_parallel_degree = optional(number)
          speculative_tokens     = optional(number)
          model_id               = string
          version                = optional(string)
          accept_eula            = optional(bool)
        }))
        custom_draft = optional(object({
          tensor_parallel_degree = optional(number)
          speculative_tokens     = optional(number)
          model = optional(object({
            huggingface = optional(object({
              model_id           = string
              revision           = optional(string)
              token_secret_arn   = optional(string)
              encryption_key_arn = optional(string)
              allow_pickle       = optional(bool)
              allow_code         = optional(bool)
              compute = optional(object({
                instance_type      = optional(string)
                instance_count     = optional(number)
                volume_size_gb     = optional(number)
                spot               = optional(bool)
                spot_wait_seconds  = optional(number)
                keep_alive_seconds = optional(number)
                environment        = optional(map(string))
              }))
            }))
            jumpstart = optional(object({
              model_id    = string
              version     = optional(string)
              accept_eula = optional(bool)
            }))
            s3 = optional(object({
              uri                = string
              accept_eula        = optional(bool)
              encryption_key_arn = optional(string)
              manifest_uri       = optional(string)
              manifest_etag      = optional(string)
            }))
          }))
          uri         = optional(string)
          accept_eula = optional(bool)
        }))
        eagle = optional(object({
          tensor_parallel_degree = optional(number)
          training_data = optional(object({
            value              = optional(string)
            uri                = optional(string)
            period             = optional(string)
            requests           = optional(bool)
            responses          = optional(bool)
            encryption_key_arn = optional(string)
          }))
          speculative_tokens = optional(number)
        }))
        ngram = optional(object({
          tensor_parallel_degree = optional(number)
          speculative_tokens     = optional(number)
          prompt_lookup_max      = optional(number)
        }))
        speculator = optional(object({
          tensor_parallel_degree = optional(number)
          model = object({
            huggingface = optional(object({
              model_id           = string
              revision           = optional(string)
              token_secret_arn   = optional(string)
              encryption_key_arn = optional(string)
              allow_pickle       = optional(bool)
              allow_code         = optional(bool)
              compute = optional(object({
                instance_type      = optional(string)
                instance_count     = optional(number)
                volume_size_gb     = optional(number)
                spot               = optional(bool)
                spot_wait_seconds  = optional(number)
                keep_alive_seconds = optional(number)
                environment        = optional(map(string))
              }))
            }))
            jumpstart = optional(object({
              model_id    = string
              version     = optional(string)
              accept_eula = optional(bool)
            }))
            s3 = optional(object({
              uri                = string
              accept_eula        = optional(bool)
              encryption_key_arn = optional(string)
              manifest_uri       = optional(string)
              manifest_etag      = optional(string)
            }))
          })
          method             = optional(string)
          speculative_tokens = optional(number)
        }))
        mtp = optional(object({ tensor_parallel_degree = optional(number), speculative_tokens = optional(number) }))
      }))
      pre_optimized = optional(object({
        tensor_parallel_degree = optional(number)
        config                 = optional(string)
        accept_draft_eula      = optional(bool)
      }))
      medusa = optional(object({
        tensor_parallel_degree = optional(number)
        compute = optional(object({
          instance_type      = optional(string)
          instance_count     = optional(number)
          volume_size_gb     = optional(number)
          spot               = optional(bool)
          spot_wait_seconds  = optional(number)
          keep_alive_seconds = optional(number)
          environment        = optional(map(string))
        }))
        training_data   = string
        validation_data = optional(string)
        hyperparameters = optional(map(string))
        heads           = optional(number)
        layers          = optional(number)
        base = optional(object({
          tensor_parallel_degree = optional(number)
          compute = optional(object({
            instance_type      = optional(string)
            instance_count     = optional(number)
            volume_size_gb     = optional(number)
            spot               = optional(bool)
            spot_wait_seconds  = optional(number)
            keep_alive_seconds = optional(number)
            environment        = optional(map(string))
          }))
          training_data   = string
          validation_data = optional(string)
          hyperparameters = optional(map(string))
          method          = optional(string)
        }))
      }))
      fine_tune = optional(object({
        tensor_parallel_degree = optional(number)
        compute = optional(object({
          instance_type      = optional(string)
          instance_count     = optional(number)
          volume_size_gb     = optional(number)
          spot               = optional(bool)
          spot_wait_seconds  = optional(number)
          keep_alive_seconds = optional(number)
          environment        = optional(map(string))
        }))
        training_data   = string
        validation_data = optional(string)
        hyperparameters = optional(map(string))
        method          = optional(string)
      }))
    }))
    instance_type = string
    artifact_store = optional(object({
      value       = optional(string)
      from_bucket = optional(object({ bucket = string, encryption_key = optional(string), read_only = optional(bool) }))
    }))
    environment = optional(map(string))
    server = optional(object({
      vllm = optional(object({
        container_version       = optional(string)
        context_length          = optional(number)
        max_concurrent_requests = optional(number)
        prefix_caching          = optional(bool)
        chunked_prefill         = optional(bool)
        reasoning_parser        = optional(string)
        tool_call_parser        = optional(string)
        adapters = optional(object({
          max_loaded = optional(number)
          max_cached = optional(number)
          max_rank   = optional(number)
        }))
      }))
      sglang = optional(object({
        container_version       = optional(string)
        context_length          = optional(number)
        max_concurrent_requests = optional(number)
        prefix_caching          = optional(bool)
        chunked_prefill         = optional(bool)
        reasoning_parser        = optional(string)
        tool_call_parser        = optional(string)
        adapters = optional(object({
          max_loaded = optional(number)
          max_cached = optional(number)
          max_rank   = optional(number)
        }))
      }))
      lmi = optional(object({
        container_version       = optional(string)
        context_length          = optional(number)
        max_concurrent_requests = optional(number)
        prefix_caching          = optional(bool)
        chunked_prefill         = optional(bool)
        reasoning_parser        = optional(string)
        tool_call_parser        = optional(string)
        adapters = optional(object({
          max_loaded = optional(number)
          max_cached = optional(number)
          max_rank   = optional(number)
        }))
      }))
      text_generation_inference = optional(object({ container_version = optional(string) }))
    }))
    accelerator_partition = optional(string)
    jobs = optional(object({
      role                 = optional(string)
      max_runtime          = optional(string)
      max_pending          = optional(string)
      capacity_reservation = optional(object({ arn = string }))
      timeout              = optional(string)
    }))
    network = optional(object({
      vpc             = optional(object({ vpc_id = string, subnet_ids = list(string) }))
      security_groups = optional(list(string))
      isolation       = optional(bool)
    }))
    role = optional(string)
    wait = optional(bool)
  }))
  default = null
}

variable "optimized_artifacts" {
  description = <<-EOT
    OptimizedArtifact constructs by ID.

    - `model`: The source model of the artifact.
    - `techniques`: The applied techniques, in order.
    - `instance_type`: The instance type to serve the model on, for instance `ml.g5.12xlarge`.
    - `artifact_key`: The artifact's key, 64 hexadecimal digits; may be a token. For a recipe with several jobs, it is the last job's key.
    - `artifact_store`: The store of the artifact; may be read-only.
    - `environment`: Additional environment variables of the model's container. Default: none.
    - `server`: The model server and its settings. Default: vLLM, unless a technique needs another server.
    - `accelerator_partition`: The GPU partition type that a copy of the model occupies. Default: none; a copy uses whole GPUs.
    - `network`: The VPC of the model. Default: none.
    - `role`: The role that SageMaker assumes for the model. Default: one role for all models of the stack.
  EOT
  type = map(object({
    model = object({
      huggingface = optional(object({
        model_id           = string
        revision           = optional(string)
        token_secret_arn   = optional(string)
        encryption_key_arn = optional(string)
        allow_pickle       = optional(bool)
        allow_code         = optional(bool)
        compute = optional(object({
          instance_type      = optional(string)
          instance_count     = optional(number)
          volume_size_gb     = optional(number)
          spot               = optional(bool)
          spot_wait_seconds  = optional(number)
          keep_alive_seconds = optional(number)
          environment        = optional(map(string))
        }))
      }))
      jumpstart = optional(object({ model_id = string, version = optional(string), accept_eula = optional(bool) }))
      s3 = optional(object({
        uri                = string
        accept_eula        = optional(bool)
        encryption_key_arn = optional(string)
        manifest_uri       = optional(string)
        manifest_etag      = optional(string)
      }))
    })
    techniques = list(object({
      compilation = optional(object({
        neuron = optional(object({
          tensor_parallel_degree  = optional(number)
          dtype                   = optional(string)
          maximum_batch_size      = optional(number)
          optimize_level          = optional(number)
          maximum_sequence_length = optional(number)
        }))
        tensorrt_llm = optional(object({
          tensor_parallel_degree = optional(number)
          maximum_input_length   = optional(number)
          maximum_output_length  = optional(number)
          maximum_batch_size     = optional(number)
        }))
      }))
      kv_cache = optional(object({
        fp8 = optional(object({ tensor_parallel_degree = optional(number) }))
      }))
      quantization = optional(object({
        awq = optional(object({
          tensor_parallel_degree = optional(number)
          checkpoint = optional(object({
            huggingface = optional(object({
              model_id           = string
              revision           = optional(string)
              token_secret_arn   = optional(string)
              encryption_key_arn = optional(string)
              allow_pickle       = optional(bool)
              allow_code         = optional(bool)
              compute = optional(object({
                instance_type      = optional(string)
                instance_count     = optional(number)
                volume_size_gb     = optional(number)
                spot               = optional(bool)
                spot_wait_seconds  = optional(number)
                keep_alive_seconds = optional(number)
                environment        = optional(map(string))
              }))
            }))
            jumpstart = optional(object({
              model_id    = string
              version     = optional(string)
              accept_eula = optional(bool)
            }))
            s3 = optional(object({
              uri                = string
              accept_eula        = optional(bool)
              encryption_key_arn = optional(string)
              manifest_uri       = optional(string)
              manifest_etag      = optional(string)
            }))
          }))
          group_size     = optional(number)
          ignored_layers = optional(list(string))
        }))
        fp8 = optional(object({
          tensor_parallel_degree = optional(number)
          checkpoint = optional(object({
            huggingface = optional(object({
              model_id           = string
              revision           = optional(string)
              token_secret_arn   = optional(string)
              encryption_key_arn = optional(string)
              allow_pickle       = optional(bool)
              allow_code         = optional(bool)
              compute = optional(object({
                instance_type      = optional(string)
                instance_count     = optional(number)
                volume_size_gb     = optional(number)
                spot               = optional(bool)
                spot_wait_seconds  = optional(number)
                keep_alive_seconds = optional(number)
                environment        = optional(map(string))
              }))
            }))
            jumpstart = optional(object({
              model_id    = string
              version     = optional(string)
              accept_eula = optional(bool)
            }))
            s3 = optional(object({
              uri                = string
              accept_eula        = optional(bool)
              encryption_key_arn = optional(string)
              manifest_uri       = optional(string)
              manifest_etag      = optional(string)
            }))
          }))
          scheme             = optional(string)
          ignored_layers     = optional(list(string))
          calibration_size   = optional(number)
          calibration_length = optional(number)
        }))
        smoothquant = optional(object({
          tensor_parallel_degree = optional(number)
          checkpoint = optional(object({
            huggingface = optional(object({
              model_id           = string
              revision           = optional(string)
              token_secret_arn   = optional(string)
              encryption_key_arn = optional(string)
              allow_pickle       = optional(bool)
              allow_code         = optional(bool)
              compute = optional(object({
                instance_type      = optional(string)
                instance_count     = optional(number)
                volume_size_gb     = optional(number)
                spot               = optional(bool)
                spot_wait_seconds  = optional(number)
                keep_alive_seconds = optional(number)
                environment        = optional(map(string))
              }))
            }))
            jumpstart = optional(object({
              model_id    = string
              version     = optional(string)
              accept_eula = optional(bool)
            }))
            s3 = optional(object({
              uri                = string
              accept_eula        = optional(bool)
              encryption_key_arn = optional(string)
              manifest_uri       = optional(string)
              manifest_etag      = optional(string)
            }))
          }))
          alpha            = optional(number)
          per_token        = optional(bool)
          per_channel      = optional(bool)
          calibration_size = optional(number)
        }))
        fp8_block = optional(object({
          tensor_parallel_degree = optional(number)
          compute = optional(object({
            instance_type      = optional(string)
            instance_count     = optional(number)
            volume_size_gb     = optional(number)
            spot               = optional(bool)
            spot_wait_seconds  = optional(number)
            keep_alive_seconds = optional(number)
            environment        = optional(map(string))
          }))
          checkpoint = optional(object({
            huggingface = optional(object({
              model_id           = string
              revision           = optional(string)
              token_secret_arn   = optional(string)
              encryption_key_arn = optional(string)
              allow_pickle       = optional(bool)
              allow_code         = optional(bool)
              compute = optional(object({
                instance_type      = optional(string)
                instance_count     = optional(number)
                volume_size_gb     = optional(number)
                spot               = optional(bool)
                spot_wait_seconds  = optional(number)
                keep_alive_seconds = optional(number)
                environment        = optional(map(string))
              }))
            }))
            jumpstart = optional(object({
              model_id    = string
              version     = optional(string)
              accept_eula = optional(bool)
            }))
            s3 = optional(object({
              uri                = string
              accept_eula        = optional(bool)
              encryption_key_arn = optional(string)
              manifest_uri       = optional(string)
              manifest_etag      = optional(string)
            }))
          }))
          ignored_layers = optional(list(string))
        }))
        fp8_dynamic = optional(object({
          tensor_parallel_degree = optional(number)
          compute = optional(object({
            instance_type      = optional(string)
            instance_count     = optional(number)
            volume_size_gb     = optional(number)
            spot               = optional(bool)
            spot_wait_seconds  = optional(number)
            keep_alive_seconds = optional(number)
            environment        = optional(map(string))
          }))
          checkpoint = optional(object({
            huggingface = optional(object({
              model_id           = string
              revision           = optional(string)
              token_secret_arn   = optional(string)
              encryption_key_arn = optional(string)
              allow_pickle       = optional(bool)
              allow_code         = optional(bool)
              compute = optional(object({
                instance_type      = optional(string)
                instance_count     = optional(number)
                volume_size_gb     = optional(number)
                spot               = optional(bool)
                spot_wait_seconds  = optional(number)
                keep_alive_seconds = optional(number)
                environment        = optional(map(string))
              }))
            }))
            jumpstart = optional(object({
              model_id    = string
              version     = optional(string)
              accept_eula = optional(bool)
            }))
            s3 = optional(object({
              uri                = string
              accept_eula        = optional(bool)
              encryption_key_arn = optional(string)
              manifest_uri       = optional(string)
              manifest_etag      = optional(string)
            }))
          }))
          ignored_layers = optional(list(string))
        }))
        w4a16 = optional(object({
          tensor_parallel_degree = optional(number)
          compute = optional(object({
            instance_type      = optional(string)
            instance_count     = optional(number)
            volume_size_gb     = optional(number)
            spot               = optional(bool)
            spot_wait_seconds  = optional(number)
            keep_alive_seconds = optional(number)
            environment        = optional(map(string))
          }))
          checkpoint = optional(object({
            huggingface = optional(object({
              model_id           = string
              revision           = optional(string)
              token_secret_arn   = optional(string)
              encryption_key_arn = optional(string)
              allow_pickle       = optional(bool)
              allow_code         = optional(bool)
              compute = optional(object({
                instance_type      = optional(string)
                instance_count     = optional(number)
                volume_size_gb     = optional(number)
                spot               = optional(bool)
                spot_wait_seconds  = optional(number)
                keep_alive_seconds = optional(number)
                environment        = optional(map(string))
              }))
            }))
            jumpstart = optional(object({
              model_id    = string
              version     = optional(string)
              accept_eula = optional(bool)
            }))
            s3 = optional(object({
              uri                = string
              accept_eula        = optional(bool)
              encryption_key_arn = optional(string)
              manifest_uri       = optional(string)
              manifest_etag      = optional(string)
            }))
          }))
          ignored_layers     = optional(list(string))
          calibration_data   = optional(string)
          calibration_size   = optional(number)
          calibration_length = optional(number)
          algorithm          = optional(string)
        }))
        nvfp4 = optional(object({
          tensor_parallel_degree = optional(number)
          compute = optional(object({
            instance_type      = optional(string)
            instance_count     = optional(number)
            volume_size_gb     = optional(number)
            spot               = optional(bool)
            spot_wait_seconds  = optional(number)
            keep_alive_seconds = optional(number)
            environment        = optional(map(string))
          }))
          checkpoint = optional(object({
            huggingface = optional(object({
              model_id           = string
              revision           = optional(string)
              token_secret_arn   = optional(string)
              encryption_key_arn = optional(string)
              allow_pickle       = optional(bool)
              allow_code         = optional(bool)
              compute = optional(object({
                instance_type      = optional(string)
                instance_count     = optional(number)
                volume_size_gb     = optional(number)
                spot               = optional(bool)
                spot_wait_seconds  = optional(number)
                keep_alive_seconds = optional(number)
                environment        = optional(map(string))
              }))
            }))
            jumpstart = optional(object({
              model_id    = string
              version     = optional(string)
              accept_eula = optional(bool)
            }))
            s3 = optional(object({
              uri                = string
              accept_eula        = optional(bool)
              encryption_key_arn = optional(string)
              manifest_uri       = optional(string)
              manifest_etag      = optional(string)
            }))
          }))
          ignored_layers     = optional(list(string))
          calibration_data   = optional(string)
          calibration_size   = optional(number)
          calibration_length = optional(number)
        }))
        mxfp4 = optional(object({
          tensor_parallel_degree = optional(number)
          compute = optional(object({
            instance_type      = optional(string)
            instance_count     = optional(number)
            volume_size_gb     = optional(number)
            spot               = optional(bool)
            spot_wait_seconds  = optional(number)
            keep_alive_seconds = optional(number)
            environment        = optional(map(string))
          }))
          checkpoint = optional(object({
            huggingface = optional(object({
              model_id           = string
              revision           = optional(string)
              token_secret_arn   = optional(string)
              encryption_key_arn = optional(string)
              allow_pickle       = optional(bool)
              allow_code         = optional(bool)
              compute = optional(object({
                instance_type      = optional(string)
                instance_count     = optional(number)
                volume_size_gb     = optional(number)
                spot               = optional(bool)
                spot_wait_seconds  = optional(number)
                keep_alive_seconds = optional(number)
                environment        = optional(map(string))
              }))
            }))
            jumpstart = optional(object({
              model_id    = string
              version     = optional(string)
              accept_eula = optional(bool)
            }))
            s3 = optional(object({
              uri                = string
              accept_eula        = optional(bool)
              encryption_key_arn = optional(string)
              manifest_uri       = optional(string)
              manifest_etag      = optional(string)
            }))
          }))
          ignored_layers = optional(list(string))
        }))
      }))
      sharding = optional(object({
        fast_load = optional(object({ tensor_parallel_degree = optional(number) }))
      }))
      speculative_decoding = optional(object({
        sagemaker_draft = optional(object({
          tensor_parallel_degree = optional(number)
          speculative_tokens     = optional(number)
        }))
        jumpstart_draft = optional(object({
          tensor_parallel_degree = optional(number)
          speculative_tokens     = optional(number)
          model_id               = string
          version                = optional(string)
          accept_eula            = optional(bool)
        }))
        custom_draft = optional(object({
          tensor_parallel_degree = optional(number)
          speculative_tokens     = optional(number)
          model = optional(object({
            huggingface = optional(object({
              model_id           = string
              revision           = optional(string)
              token_secret_arn   = optional(string)
              encryption_key_arn = optional(string)
              allow_pickle       = optional(bool)
              allow_code         = optional(bool)
              compute = optional(object({
                instance_type      = optional(string)
                instance_count     = optional(number)
                volume_size_gb     = optional(number)
                spot               = optional(bool)
                spot_wait_seconds  = optional(number)
                keep_alive_seconds = optional(number)
                environment        = optional(map(string))
              }))
            }))
            jumpstart = optional(object({
              model_id    = string
              version     = optional(string)
              accept_eula = optional(bool)
            }))
            s3 = optional(object({
              uri                = string
              accept_eula        = optional(bool)
              encryption_key_arn = optional(string)
              manifest_uri       = optional(string)
              manifest_etag      = optional(string)
            }))
          }))
          uri         = optional(string)
          accept_eula = optional(bool)
        }))
        eagle = optional(object({
          tensor_parallel_degree = optional(number)
          training_data = optional(object({
            value              = optional(string)
            uri                = optional(string)
            period             = optional(string)
            requests           = optional(bool)
            responses          = optional(bool)
            encryption_key_arn = optional(string)
          }))
          speculative_tokens = optional(number)
        }))
        ngram = optional(object({
          tensor_parallel_degree = optional(number)
          speculative_tokens     = optional(number)
          prompt_lookup_max      = optional(number)
        }))
        speculator = optional(object({
          tensor_parallel_degree = optional(number)
          model = object({
            huggingface = optional(object({
              model_id           = string
              revision           = optional(string)
              token_secret_arn   = optional(string)
              encryption_key_arn = optional(string)
              allow_pickle       = optional(bool)
              allow_code         = optional(bool)
              compute = optional(object({
                instance_type      = optional(string)
                instance_count     = optional(number)
                volume_size_gb     = optional(number)
                spot               = optional(bool)
                spot_wait_seconds  = optional(number)
                keep_alive_seconds = optional(number)
                environment        = optional(map(string))
              }))
            }))
            jumpstart = optional(object({
              model_id    = string
              version     = optional(string)
              accept_eula = optional(bool)
            }))
            s3 = optional(object({
              uri                = string
              accept_eula        = optional(bool)
              encryption_key_arn = optional(string)
              manifest_uri       = optional(string)
              manifest_etag      = optional(string)
            }))
          })
          method             = optional(string)
          speculative_tokens = optional(number)
        }))
        mtp = optional(object({ tensor_parallel_degree = optional(number), speculative_tokens = optional(number) }))
      }))
      pre_optimized = optional(object({
        tensor_parallel_degree = optional(number)
        config                 = optional(string)
        accept_draft_eula      = optional(bool)
      }))
      medusa = optional(object({
        tensor_parallel_degree = optional(number)
        compute = optional(object({
          instance_type      = optional(string)
          instance_count     = optional(number)
          volume_size_gb     = optional(number)
          spot               = optional(bool)
          spot_wait_seconds  = optional(number)
          keep_alive_seconds = optional(number)
          environment        = optional(map(string))
        }))
        training_data   = string
        validation_data = optional(string)
        hyperparameters = optional(map(string))
        heads           = optional(number)
        layers          = optional(number)
        base = optional(object({
          tensor_parallel_degree = optional(number)
          compute = optional(object({
            instance_type      = optional(string)
            instance_count     = optional(number)
            volume_size_gb     = optional(number)
            spot               = optional(bool)
            spot_wait_seconds  = optional(number)
            keep_alive_seconds = optional(number)
            environment        = optional(map(string))
          }))
          training_data   = string
          validation_data = optional(string)
          hyperparameters = optional(map(string))
          method          = optional(string)
        }))
      }))
      fine_tune = optional(object({
        tensor_parallel_degree = optional(number)
        compute = optional(object({
          instance_type      = optional(string)
          instance_count     = optional(number)
          volume_size_gb     = optional(number)
          spot               = optional(bool)
          spot_wait_seconds  = optional(number)
          keep_alive_seconds = optional(number)
          environment        = optional(map(string))
        }))
        training_data   = string
        validation_data = optional(string)
        hyperparameters = optional(map(string))
        method          = optional(string)
      }))
    }))
    instance_type = string
    artifact_key  = string
    artifact_store = object({
      value       = optional(string)
      from_bucket = optional(object({ bucket = string, encryption_key = optional(string), read_only = optional(bool) }))
    })
    environment = optional(map(string))
    server = optional(object({
      vllm = optional(object({
        container_version       = optional(string)
        context_length          = optional(number)
        max_concurrent_requests = optional(number)
        prefix_caching          = optional(bool)
        chunked_prefill         = optional(bool)
        reasoning_parser        = optional(string)
        tool_call_parser        = optional(string)
        adapters = optional(object({
          max_loaded = optional(number)
          max_cached = optional(number)
          max_rank   = optional(number)
        }))
      }))
      sglang = optional(object({
        container_version       = optional(string)
        context_length          = optional(number)
        max_concurrent_requests = optional(number)
        prefix_caching          = optional(bool)
        chunked_prefill         = optional(bool)
        reasoning_parser        = optional(string)
        tool_call_parser        = optional(string)
        adapters = optional(object({
          max_loaded = optional(number)
          max_cached = optional(number)
          max_rank   = optional(number)
        }))
      }))
      lmi = optional(object({
        container_version       = optional(string)
        context_length          = optional(number)
        max_concurrent_requests = optional(number)
        prefix_caching          = optional(bool)
        chunked_prefill         = optional(bool)
        reasoning_parser        = optional(string)
        tool_call_parser        = optional(string)
        adapters = optional(object({
          max_loaded = optional(number)
          max_cached = optional(number)
          max_rank   = optional(number)
        }))
      }))
      text_generation_inference = optional(object({ container_version = optional(string) }))
    }))
    accelerator_partition = optional(string)
    network = optional(object({
      vpc             = optional(object({ vpc_id = string, subnet_ids = list(string) }))
      security_groups = optional(list(string))
      isolation       = optional(bool)
    }))
    role = optional(string)
  }))
  default = null
}

variable "endpoints" {
  description = <<-EOT
    OptimizedEndpoint constructs by ID.

    - `model`: The source of the weights. Default: none, for an endpoint of inference components.
    - `techniques`: The techniques to apply, in order.
    - `instance_type`: The endpoint's instance type, for instance `ml.g5.12xlarge`.
    - `instance_pools`: Instead of `techniques` and `instance_type`, up to five instance types with the techniques for each, in order of preference. SageMaker launches instances of the first type that has capacity.
    - `objectives`: Instead of `techniques` and `instance_type`, the performance that the endpoint must reach. The lock file's choice for these objectives sets the recipe, the instance types, the number of instances, and the scaling target.
    - `artifact_store`: The store of the artifacts; a read-only one requires `artifact_key`. Default: one store for the whole stack.
    - `artifact_key`: The key of an existing artifact in `artifact_store`, 64 hexadecimal digits; may be a token. For a recipe with several jobs, it is the last job's key. No job runs, and the deployment fails if the store does not have the artifact. Default: jobs create the artifacts that are missing from the store.
    - `environment`: Additional environment variables of the model's container. Default: none.
    - `server`: The model server and its settings. Default: vLLM, unless a technique needs another server.
    - `inference_component`: Whether the model is served as an inference component. Such an endpoint accepts further components and scales by copies, also to zero; requests name the component. `ComponentOptions` mean yes, with these options. Default: only if a technique requires it.
    - `variant`: The production variant: its instances, time limits and routing. Default: one instance.
    - `jobs`: The role and the maximum runtime of optimization and training jobs, and how long the deployment waits for them.
    - `monitoring`: The alarms and their actions, additional metrics, and the instance price for the dashboard's costs. Default: alarms without actions.
    - `update_policy`: How a changed configuration reaches the endpoint, and what rolls the update back. Default: all at once, keeping the old fleet for 10 minutes.
    - `async_inference`: Asynchronous inference, which queues requests and writes responses to S3. Default: synchronous inference.
    - `data_capture`: Capture of requests and responses to S3. Default: no capture.
    - `endpoint_name`: The endpoint's name. Default: generated from the endpoint's path in the stack and the stack's name or, in a template for any number of stacks, its ID.
    - `encryption_key`: The KMS key of the instances' volumes, for types without NVMe disks. Default: SageMaker's.
    - `network`: The VPC of jobs and models, and whether the model's container is isolated from the network. Default: no VPC, and isolation if the techniques allow it.
    - `role`: The role that SageMaker assumes for the model, and for jobs without a role of their own. Default: one role for all models of the stack, without write permissions.
    - `removal_policy`: Whether the endpoint, its configuration and its models are deleted with the stack. Default: they are deleted.
    - `components`: Serve one more model on the endpoint's instances.
    - `evaluations`: Benchmark the endpoint after each deployment that changes it, on a schedule, or both.
    - `acknowledge`: Accept the findings of a rule in a construct and below it.
  EOT
  type = map(object({
    model = optional(object({
      huggingface = optional(object({
        model_id           = string
        revision           = optional(string)
        token_secret_arn   = optional(string)
        encryption_key_arn = optional(string)
        allow_pickle       = optional(bool)
        allow_code         = optional(bool)
        compute = optional(object({
          instance_type      = optional(string)
          instance_count     = optional(number)
          volume_size_gb     = optional(number)
          spot               = optional(bool)
          spot_wait_seconds  = optional(number)
          keep_alive_seconds = optional(number)
          environment        = optional(map(string))
        }))
      }))
      jumpstart = optional(object({ model_id = string, version = optional(string), accept_eula = optional(bool) }))
      s3 = optional(object({
        uri                = string
        accept_eula        = optional(bool)
        encryption_key_arn = optional(string)
        manifest_uri       = optional(string)
        manifest_etag      = optional(string)
      }))
    }))
    techniques = optional(list(object({
      compilation = optional(object({
        neuron = optional(object({
          tensor_parallel_degree  = optional(number)
          dtype                   = optional(string)
          maximum_batch_size      = optional(number)
          optimize_level          = optional(number)
          maximum_sequence_length = optional(number)
        }))
        tensorrt_llm = optional(object({
          tensor_parallel_degree = optional(number)
          maximum_input_length   = optional(number)
          maximum_output_length  = optional(number)
          maximum_batch_size     = optional(number)
        }))
      }))
      kv_cache = optional(object({
        fp8 = optional(object({ tensor_parallel_degree = optional(number) }))
      }))
      quantization = optional(object({
        awq = optional(object({
          tensor_parallel_degree = optional(number)
          checkpoint = optional(object({
            huggingface = optional(object({
              model_id           = string
              revision           = optional(string)
              token_secret_arn   = optional(string)
              encryption_key_arn = optional(string)
              allow_pickle       = optional(bool)
              allow_code         = optional(bool)
              compute = optional(object({
                instance_type      = optional(string)
                instance_count     = optional(number)
                volume_size_gb     = optional(number)
                spot               = optional(bool)
                spot_wait_seconds  = optional(number)
                keep_alive_seconds = optional(number)
                environment        = optional(map(string))
              }))
            }))
            jumpstart = optional(object({
              model_id    = string
              version     = optional(string)
              accept_eula = optional(bool)
            }))
            s3 = optional(object({
              uri                = string
              accept_eula        = optional(bool)
              encryption_key_arn = optional(string)
              manifest_uri       = optional(string)
              manifest_etag      = optional(string)
            }))
          }))
          group_size     = optional(number)
          ignored_layers = optional(list(string))
        }))
        fp8 = optional(object({
          tensor_parallel_degree = optional(number)
          checkpoint = optional(object({
            huggingface = optional(object({
              model_id           = string
              revision           = optional(string)
              token_secret_arn   = optional(string)
              encryption_key_arn = optional(string)
              allow_pickle       = optional(bool)
              allow_code         = optional(bool)
              compute = optional(object({
                instance_type      = optional(string)
                instance_count     = optional(number)
                volume_size_gb     = optional(number)
                spot               = optional(bool)
                spot_wait_seconds  = optional(number)
                keep_alive_seconds = optional(number)
                environment        = optional(map(string))
              }))
            }))
            jumpstart = optional(object({
              model_id    = string
              version     = optional(string)
              accept_eula = optional(bool)
            }))
            s3 = optional(object({
              uri                = string
              accept_eula        = optional(bool)
              encryption_key_arn = optional(string)
              manifest_uri       = optional(string)
              manifest_etag      = optional(string)
            }))
          }))
          scheme             = optional(string)
          ignored_layers     = optional(list(string))
          calibration_size   = optional(number)
          calibration_length = optional(number)
        }))
        smoothquant = optional(object({
          tensor_parallel_degree = optional(number)
          checkpoint = optional(object({
            huggingface = optional(object({
              model_id           = string
              revision           = optional(string)
              token_secret_arn   = optional(string)
              encryption_key_arn = optional(string)
              allow_pickle       = optional(bool)
              allow_code         = optional(bool)
              compute = optional(object({
                instance_type      = optional(string)
                instance_count     = optional(number)
                volume_size_gb     = optional(number)
                spot               = optional(bool)
                spot_wait_seconds  = optional(number)
                keep_alive_seconds = optional(number)
                environment        = optional(map(string))
              }))
            }))
            jumpstart = optional(object({
              model_id    = string
              version     = optional(string)
              accept_eula = optional(bool)
            }))
            s3 = optional(object({
              uri                = string
              accept_eula        = optional(bool)
              encryption_key_arn = optional(string)
              manifest_uri       = optional(string)
              manifest_etag      = optional(string)
            }))
          }))
          alpha            = optional(number)
          per_token        = optional(bool)
          per_channel      = optional(bool)
          calibration_size = optional(number)
        }))
        fp8_block = optional(object({
          tensor_parallel_degree = optional(number)
          compute = optional(object({
            instance_type      = optional(string)
            instance_count     = optional(number)
            volume_size_gb     = optional(number)
            spot               = optional(bool)
            spot_wait_seconds  = optional(number)
            keep_alive_seconds = optional(number)
            environment        = optional(map(string))
          }))
          checkpoint = optional(object({
            huggingface = optional(object({
              model_id           = string
              revision           = optional(string)
              token_secret_arn   = optional(string)
              encryption_key_arn = optional(string)
              allow_pickle       = optional(bool)
              allow_code         = optional(bool)
              compute = optional(object({
                instance_type      = optional(string)
                instance_count     = optional(number)
                volume_size_gb     = optional(number)
                spot               = optional(bool)
                spot_wait_seconds  = optional(number)
                keep_alive_seconds = optional(number)
                environment        = optional(map(string))
              }))
            }))
            jumpstart = optional(object({
              model_id    = string
              version     = optional(string)
              accept_eula = optional(bool)
            }))
            s3 = optional(object({
              uri                = string
              accept_eula        = optional(bool)
              encryption_key_arn = optional(string)
              manifest_uri       = optional(string)
              manifest_etag      = optional(string)
            }))
          }))
          ignored_layers = optional(list(string))
        }))
        fp8_dynamic = optional(object({
          tensor_parallel_degree = optional(number)
          compute = optional(object({
            instance_type      = optional(string)
            instance_count     = optional(number)
            volume_size_gb     = optional(number)
            spot               = optional(bool)
            spot_wait_seconds  = optional(number)
            keep_alive_seconds = optional(number)
            environment        = optional(map(string))
          }))
          checkpoint = optional(object({
            huggingface = optional(object({
              model_id           = string
              revision           = optional(string)
              token_secret_arn   = optional(string)
              encryption_key_arn = optional(string)
              allow_pickle       = optional(bool)
              allow_code         = optional(bool)
              compute = optional(object({
                instance_type      = optional(string)
                instance_count     = optional(number)
                volume_size_gb     = optional(number)
                spot               = optional(bool)
                spot_wait_seconds  = optional(number)
                keep_alive_seconds = optional(number)
                environment        = optional(map(string))
              }))
            }))
            jumpstart = optional(object({
              model_id    = string
              version     = optional(string)
              accept_eula = optional(bool)
            }))
            s3 = optional(object({
              uri                = string
              accept_eula        = optional(bool)
              encryption_key_arn = optional(string)
              manifest_uri       = optional(string)
              manifest_etag      = optional(string)
            }))
          }))
          ignored_layers = optional(list(string))
        }))
        w4a16 = optional(object({
          tensor_parallel_degree = optional(number)
          compute = optional(object({
            instance_type      = optional(string)
            instance_count     = optional(number)
            volume_size_gb     = optional(number)
            spot               = optional(bool)
            spot_wait_seconds  = optional(number)
            keep_alive_seconds = optional(number)
            environment        = optional(map(string))
          }))
          checkpoint = optional(object({
            huggingface = optional(object({
              model_id           = string
              revision           = optional(string)
              token_secret_arn   = optional(string)
              encryption_key_arn = optional(string)
              allow_pickle       = optional(bool)
              allow_code         = optional(bool)
              compute = optional(object({
                instance_type      = optional(string)
                instance_count     = optional(number)
                volume_size_gb     = optional(number)
                spot               = optional(bool)
                spot_wait_seconds  = optional(number)
                keep_alive_seconds = optional(number)
                environment        = optional(map(string))
              }))
            }))
            jumpstart = optional(object({
              model_id    = string
              version     = optional(string)
              accept_eula = optional(bool)
            }))
            s3 = optional(object({
              uri                = string
              accept_eula        = optional(bool)
              encryption_key_arn = optional(string)
              manifest_uri       = optional(string)
              manifest_etag      = optional(string)
            }))
          }))
          ignored_layers     = optional(list(string))
          calibration_data   = optional(string)
          calibration_size   = optional(number)
          calibration_length = optional(number)
          algorithm          = optional(string)
        }))
        nvfp4 = optional(object({
          tensor_parallel_degree = optional(number)
          compute = optional(object({
            instance_type      = optional(string)
            instance_count     = optional(number)
            volume_size_gb     = optional(number)
            spot               = optional(bool)
            spot_wait_seconds  = optional(number)
            keep_alive_seconds = optional(number)
            environment        = optional(map(string))
          }))
          checkpoint = optional(object({
            huggingface = optional(object({
              model_id           = string
              revision           = optional(string)
              token_secret_arn   = optional(string)
              encryption_key_arn = optional(string)
              allow_pickle       = optional(bool)
              allow_code         = optional(bool)
              compute = optional(object({
                instance_type      = optional(string)
                instance_count     = optional(number)
                volume_size_gb     = optional(number)
                spot               = optional(bool)
                spot_wait_seconds  = optional(number)
                keep_alive_seconds = optional(number)
                environment        = optional(map(string))
              }))
            }))
            jumpstart = optional(object({
              model_id    = string
              version     = optional(string)
              accept_eula = optional(bool)
            }))
            s3 = optional(object({
              uri                = string
              accept_eula        = optional(bool)
              encryption_key_arn = optional(string)
              manifest_uri       = optional(string)
              manifest_etag      = optional(string)
            }))
          }))
          ignored_layers     = optional(list(string))
          calibration_data   = optional(string)
          calibration_size   = optional(number)
          calibration_length = optional(number)
        }))
        mxfp4 = optional(object({
          tensor_parallel_degree = optional(number)
          compute = optional(object({
            instance_type      = optional(string)
            instance_count     = optional(number)
            volume_size_gb     = optional(number)
            spot               = optional(bool)
            spot_wait_seconds  = optional(number)
            keep_alive_seconds = optional(number)
            environment        = optional(map(string))
          }))
          checkpoint = optional(object({
            huggingface = optional(object({
              model_id           = string
              revision           = optional(string)
              token_secret_arn   = optional(string)
              encryption_key_arn = optional(string)
              allow_pickle       = optional(bool)
              allow_code         = optional(bool)
              compute = optional(object({
                instance_type      = optional(string)
                instance_count     = optional(number)
                volume_size_gb     = optional(number)
                spot               = optional(bool)
                spot_wait_seconds  = optional(number)
                keep_alive_seconds = optional(number)
                environment        = optional(map(string))
              }))
            }))
            jumpstart = optional(object({
              model_id    = string
              version     = optional(string)
              accept_eula = optional(bool)
            }))
            s3 = optional(object({
              uri                = string
              accept_eula        = optional(bool)
              encryption_key_arn = optional(string)
              manifest_uri       = optional(string)
              manifest_etag      = optional(string)
            }))
          }))
          ignored_layers = optional(list(string))
        }))
      }))
      sharding = optional(object({
        fast_load = optional(object({ tensor_parallel_degree = optional(number) }))
      }))
      speculative_decoding = optional(object({
        sagemaker_draft = optional(object({
          tensor_parallel_degree = optional(number)
          speculative_tokens     = optional(number)
        }))
        jumpstart_draft = optional(object({
          tensor_parallel_degree = optional(number)
          speculative_tokens     = optional(number)
          model_id               = string
          version                = optional(string)
          accept_eula            = optional(bool)
        }))
        custom_draft = optional(object({
          tensor_parallel_degree = optional(number)
          speculative_tokens     = optional(number)
          model = optional(object({
            huggingface = optional(object({
              model_id           = string
              revision           = optional(string)
              token_secret_arn   = optional(string)
              encryption_key_arn = optional(string)
              allow_pickle       = optional(bool)
              allow_code         = optional(bool)
              compute = optional(object({
                instance_type      = optional(string)
                instance_count     = optional(number)
                volume_size_gb     = optional(number)
                spot               = optional(bool)
                spot_wait_seconds  = optional(number)
                keep_alive_seconds = optional(number)
                environment        = optional(map(string))
              }))
            }))
            jumpstart = optional(object({
              model_id    = string
              version     = optional(string)
              accept_eula = optional(bool)
            }))
            s3 = optional(object({
              uri                = string
              accept_eula        = optional(bool)
              encryption_key_arn = optional(string)
              manifest_uri       = optional(string)
              manifest_etag      = optional(string)
            }))
          }))
          uri         = optional(string)
          accept_eula = optional(bool)
        }))
        eagle = optional(object({
          tensor_parallel_degree = optional(number)
          training_data = optional(object({
            value              = optional(string)
            uri                = optional(string)
            period             = optional(string)
            requests           = optional(bool)
            responses          = optional(bool)
            encryption_key_arn = optional(string)
          }))
          speculative_tokens = optional(number)
        }))
        ngram = optional(object({
          tensor_parallel_degree = optional(number)
          speculative_tokens     = optional(number)
          prompt_lookup_max      = optional(number)
        }))
        speculator = optional(object({
          tensor_parallel_degree = optional(number)
          model = object({
            huggingface = optional(object({
              model_id           = string
              revision           = optional(string)
              token_secret_arn   = optional(string)
              encryption_key_arn = optional(string)
              allow_pickle       = optional(bool)
              allow_code         = optional(bool)
              compute = optional(object({
                instance_type      = optional(string)
                instance_count     = optional(number)
                volume_size_gb     = optional(number)
                spot               = optional(bool)
                spot_wait_seconds  = optional(number)
                keep_alive_seconds = optional(number)
                environment        = optional(map(string))
              }))
            }))
            jumpstart = optional(object({
              model_id    = string
              version     = optional(string)
              accept_eula = optional(bool)
            }))
            s3 = optional(object({
              uri                = string
              accept_eula        = optional(bool)
              encryption_key_arn = optional(string)
              manifest_uri       = optional(string)
              manifest_etag      = optional(string)
            }))
          })
          method             = optional(string)
          speculative_tokens = optional(number)
        }))
        mtp = optional(object({ tensor_parallel_degree = optional(number), speculative_tokens = optional(number) }))
      }))
      pre_optimized = optional(object({
        tensor_parallel_degree = optional(number)
        config                 = optional(string)
        accept_draft_eula      = optional(bool)
      }))
      medusa = optional(object({
        tensor_parallel_degree = optional(number)
        compute = optional(object({
          instance_type      = optional(string)
          instance_count     = optional(number)
          volume_size_gb     = optional(number)
          spot               = optional(bool)
          spot_wait_seconds  = optional(number)
          keep_alive_seconds = optional(number)
          environment        = optional(map(string))
        }))
        training_data   = string
        validation_data = optional(string)
        hyperparameters = optional(map(string))
        heads           = optional(number)
        layers          = optional(number)
        base = optional(object({
          tensor_parallel_degree = optional(number)
          compute = optional(object({
            instance_type      = optional(string)
            instance_count     = optional(number)
            volume_size_gb     = optional(number)
            spot               = optional(bool)
            spot_wait_seconds  = optional(number)
            keep_alive_seconds = optional(number)
            environment        = optional(map(string))
          }))
          training_data   = string
          validation_data = optional(string)
          hyperparameters = optional(map(string))
          method          = optional(string)
        }))
      }))
      fine_tune = optional(object({
        tensor_parallel_degree = optional(number)
        compute = optional(object({
          instance_type      = optional(string)
          instance_count     = optional(number)
          volume_size_gb     = optional(number)
          spot               = optional(bool)
          spot_wait_seconds  = optional(number)
          keep_alive_seconds = optional(number)
          environment        = optional(map(string))
        }))
        training_data   = string
        validation_data = optional(string)
        hyperparameters = optional(map(string))
        method          = optional(string)
      }))
    })))
    instance_type = optional(string)
    instance_pools = optional(list(object({
      instance_type = string
      techniques = optional(list(object({
        compilation = optional(object({
          neuron = optional(object({
            tensor_parallel_degree  = optional(number)
            dtype                   = optional(string)
            maximum_batch_size      = optional(number)
            optimize_level          = optional(number)
            maximum_sequence_length = optional(number)
          }))
          tensorrt_llm = optional(object({
            tensor_parallel_degree = optional(number)
            maximum_input_length   = optional(number)
            maximum_output_length  = optional(number)
            maximum_batch_size     = optional(number)
          }))
        }))
        kv_cache = optional(object({
          fp8 = optional(object({ tensor_parallel_degree = optional(number) }))
        }))
        quantization = optional(object({
          awq = optional(object({
            tensor_parallel_degree = optional(number)
            checkpoint = optional(object({
              huggingface = optional(object({
                model_id           = string
                revision           = optional(string)
                token_secret_arn   = optional(string)
                encryption_key_arn = optional(string)
                allow_pickle       = optional(bool)
                allow_code         = optional(bool)
                compute = optional(object({
                  instance_type      = optional(string)
                  instance_count     = optional(number)
                  volume_size_gb     = optional(number)
                  spot               = optional(bool)
                  spot_wait_seconds  = optional(number)
                  keep_alive_seconds = optional(number)
                  environment        = optional(map(string))
                }))
              }))
              jumpstart = optional(object({
                model_id    = string
                version     = optional(string)
                accept_eula = optional(bool)
              }))
              s3 = optional(object({
                uri                = string
                accept_eula        = optional(bool)
                encryption_key_arn = optional(string)
                manifest_uri       = optional(string)
                manifest_etag      = optional(string)
              }))
            }))
            group_size     = optional(number)
            ignored_layers = optional(list(string))
          }))
          fp8 = optional(object({
            tensor_parallel_degree = optional(number)
            checkpoint = optional(object({
              huggingface = optional(object({
                model_id           = string
                revision           = optional(string)
                token_secret_arn   = optional(string)
                encryption_key_arn = optional(string)
                allow_pickle       = optional(bool)
                allow_code         = optional(bool)
                compute = optional(object({
                  instance_type      = optional(string)
                  instance_count     = optional(number)
                  volume_size_gb     = optional(number)
                  spot               = optional(bool)
                  spot_wait_seconds  = optional(number)
                  keep_alive_seconds = optional(number)
                  environment        = optional(map(string))
                }))
              }))
              jumpstart = optional(object({
                model_id    = string
                version     = optional(string)
                accept_eula = optional(bool)
              }))
              s3 = optional(object({
                uri                = string
                accept_eula        = optional(bool)
                encryption_key_arn = optional(string)
                manifest_uri       = optional(string)
                manifest_etag      = optional(string)
              }))
            }))
            scheme             = optional(string)
            ignored_layers     = optional(list(string))
            calibration_size   = optional(number)
            calibration_length = optional(number)
          }))
          smoothquant = optional(object({
            tensor_parallel_degree = optional(number)
            checkpoint = optional(object({
              huggingface = optional(object({
                model_id           = string
                revision           = optional(string)
                token_secret_arn   = optional(string)
                encryption_key_arn = optional(string)
                allow_pickle       = optional(bool)
                allow_code         = optional(bool)
                compute = optional(object({
                  instance_type      = optional(string)
                  instance_count     = optional(number)
                  volume_size_gb     = optional(number)
                  spot               = optional(bool)
                  spot_wait_seconds  = optional(number)
                  keep_alive_seconds = optional(number)
                  environment        = optional(map(string))
                }))
              }))
              jumpstart = optional(object({
                model_id    = string
                version     = optional(string)
                accept_eula = optional(bool)
              }))
              s3 = optional(object({
                uri                = string
                accept_eula        = optional(bool)
                encryption_key_arn = optional(string)
                manifest_uri       = optional(string)
                manifest_etag      = optional(string)
              }))
            }))
            alpha            = optional(number)
            per_token        = optional(bool)
            per_channel      = optional(bool)
            calibration_size = optional(number)
          }))
          fp8_block = optional(object({
            tensor_parallel_degree = optional(number)
            compute = optional(object({
              instance_type      = optional(string)
              instance_count     = optional(number)
              volume_size_gb     = optional(number)
              spot               = optional(bool)
              spot_wait_seconds  = optional(number)
              keep_alive_seconds = optional(number)
              environment        = optional(map(string))
            }))
            checkpoint = optional(object({
              huggingface = optional(object({
                model_id           = string
                revision           = optional(string)
                token_secret_arn   = optional(string)
                encryption_key_arn = optional(string)
                allow_pickle       = optional(bool)
                allow_code         = optional(bool)
                compute = optional(object({
                  instance_type      = optional(string)
                  instance_count     = optional(number)
                  volume_size_gb     = optional(number)
                  spot               = optional(bool)
                  spot_wait_seconds  = optional(number)
                  keep_alive_seconds = optional(number)
                  environment        = optional(map(string))
                }))
              }))
              jumpstart = optional(object({
                model_id    = string
                version     = optional(string)
                accept_eula = optional(bool)
              }))
              s3 = optional(object({
                uri                = string
                accept_eula        = optional(bool)
                encryption_key_arn = optional(string)
                manifest_uri       = optional(string)
                manifest_etag      = optional(string)
              }))
            }))
            ignored_layers = optional(list(string))
          }))
          fp8_dynamic = optional(object({
            tensor_parallel_degree = optional(number)
            compute = optional(object({
              instance_type      = optional(string)
              instance_count     = optional(number)
              volume_size_gb     = optional(number)
              spot               = optional(bool)
              spot_wait_seconds  = optional(number)
              keep_alive_seconds = optional(number)
              environment        = optional(map(string))
            }))
            checkpoint = optional(object({
              huggingface = optional(object({
                model_id           = string
                revision           = optional(string)
                token_secret_arn   = optional(string)
                encryption_key_arn = optional(string)
                allow_pickle       = optional(bool)
                allow_code         = optional(bool)
                compute = optional(object({
                  instance_type      = optional(string)
                  instance_count     = optional(number)
                  volume_size_gb     = optional(number)
                  spot               = optional(bool)
                  spot_wait_seconds  = optional(number)
                  keep_alive_seconds = optional(number)
                  environment        = optional(map(string))
                }))
              }))
              jumpstart = optional(object({
                model_id    = string
                version     = optional(string)
                accept_eula = optional(bool)
              }))
              s3 = optional(object({
                uri                = string
                accept_eula        = optional(bool)
                encryption_key_arn = optional(string)
                manifest_uri       = optional(string)
                manifest_etag      = optional(string)
              }))
            }))
            ignored_layers = optional(list(string))
          }))
          w4a16 = optional(object({
            tensor_parallel_degree = optional(number)
            compute = optional(object({
              instance_type      = optional(string)
              instance_count     = optional(number)
              volume_size_gb     = optional(number)
              spot               = optional(bool)
              spot_wait_seconds  = optional(number)
              keep_alive_seconds = optional(number)
              environment        = optional(map(string))
            }))
            checkpoint = optional(object({
              huggingface = optional(object({
                model_id           = string
                revision           = optional(string)
                token_secret_arn   = optional(string)
                encryption_key_arn = optional(string)
                allow_pickle       = optional(bool)
                allow_code         = optional(bool)
                compute = optional(object({
                  instance_type      = optional(string)
                  instance_count     = optional(number)
                  volume_size_gb     = optional(number)
                  spot               = optional(bool)
                  spot_wait_seconds  = optional(number)
                  keep_alive_seconds = optional(number)
                  environment        = optional(map(string))
                }))
              }))
              jumpstart = optional(object({
                model_id    = string
                version     = optional(string)
                accept_eula = optional(bool)
              }))
              s3 = optional(object({
                uri                = string
                accept_eula        = optional(bool)
                encryption_key_arn = optional(string)
                manifest_uri       = optional(string)
                manifest_etag      = optional(string)
              }))
            }))
            ignored_layers     = optional(list(string))
            calibration_data   = optional(string)
            calibration_size   = optional(number)
            calibration_length = optional(number)
            algorithm          = optional(string)
          }))
          nvfp4 = optional(object({
            tensor_parallel_degree = optional(number)
            compute = optional(object({
              instance_type      = optional(string)
              instance_count     = optional(number)
              volume_size_gb     = optional(number)
              spot               = optional(bool)
              spot_wait_seconds  = optional(number)
              keep_alive_seconds = optional(number)
              environment        = optional(map(string))
            }))
            checkpoint = optional(object({
              huggingface = optional(object({
                model_id           = string
                revision           = optional(string)
                token_secret_arn   = optional(string)
                encryption_key_arn = optional(string)
                allow_pickle       = optional(bool)
                allow_code         = optional(bool)
                compute = optional(object({
                  instance_type      = optional(string)
                  instance_count     = optional(number)
                  volume_size_gb     = optional(number)
                  spot               = optional(bool)
                  spot_wait_seconds  = optional(number)
                  keep_alive_seconds = optional(number)
                  environment        = optional(map(string))
                }))
              }))
              jumpstart = optional(object({
                model_id    = string
                version     = optional(string)
                accept_eula = optional(bool)
              }))
              s3 = optional(object({
                uri                = string
                accept_eula        = optional(bool)
                encryption_key_arn = optional(string)
                manifest_uri       = optional(string)
                manifest_etag      = optional(string)
              }))
            }))
            ignored_layers     = optional(list(string))
            calibration_data   = optional(string)
            calibration_size   = optional(number)
            calibration_length = optional(number)
          }))
          mxfp4 = optional(object({
            tensor_parallel_degree = optional(number)
            compute = optional(object({
              instance_type      = optional(string)
              instance_count     = optional(number)
              volume_size_gb     = optional(number)
              spot               = optional(bool)
              spot_wait_seconds  = optional(number)
              keep_alive_seconds = optional(number)
              environment        = optional(map(string))
            }))
            checkpoint = optional(object({
              huggingface = optional(object({
                model_id           = string
                revision           = optional(string)
                token_secret_arn   = optional(string)
                encryption_key_arn = optional(string)
                allow_pickle       = optional(bool)
                allow_code         = optional(bool)
                compute = optional(object({
                  instance_type      = optional(string)
                  instance_count     = optional(number)
                  volume_size_gb     = optional(number)
                  spot               = optional(bool)
                  spot_wait_seconds  = optional(number)
                  keep_alive_seconds = optional(number)
                  environment        = optional(map(string))
                }))
              }))
              jumpstart = optional(object({
                model_id    = string
                version     = optional(string)
                accept_eula = optional(bool)
              }))
              s3 = optional(object({
                uri                = string
                accept_eula        = optional(bool)
                encryption_key_arn = optional(string)
                manifest_uri       = optional(string)
                manifest_etag      = optional(string)
              }))
            }))
            ignored_layers = optional(list(string))
          }))
        }))
        sharding = optional(object({
          fast_load = optional(object({ tensor_parallel_degree = optional(number) }))
        }))
        speculative_decoding = optional(object({
          sagemaker_draft = optional(object({
            tensor_parallel_degree = optional(number)
            speculative_tokens     = optional(number)
          }))
          jumpstart_draft = optional(object({
            tensor_parallel_degree = optional(number)
            speculative_tokens     = optional(number)
            model_id               = string
            version                = optional(string)
            accept_eula            = optional(bool)
          }))
          custom_draft = optional(object({
            tensor_parallel_degree = optional(number)
            speculative_tokens     = optional(number)
            model = optional(object({
              huggingface = optional(object({
                model_id           = string
                revision           = optional(string)
                token_secret_arn   = optional(string)
                encryption_key_arn = optional(string)
                allow_pickle       = optional(bool)
                allow_code         = optional(bool)
                compute = optional(object({
                  instance_type      = optional(string)
                  instance_count     = optional(number)
                  volume_size_gb     = optional(number)
                  spot               = optional(bool)
                  spot_wait_seconds  = optional(number)
                  keep_alive_seconds = optional(number)
                  environment        = optional(map(string))
                }))
              }))
              jumpstart = optional(object({
                model_id    = string
                version     = optional(string)
                accept_eula = optional(bool)
              }))
              s3 = optional(object({
                uri                = string
                accept_eula        = optional(bool)
                encryption_key_arn = optional(string)
                manifest_uri       = optional(string)
                manifest_etag      = optional(string)
              }))
            }))
            uri         = optional(string)
            accept_eula = optional(bool)
          }))
          eagle = optional(object({
            tensor_parallel_degree = optional(number)
            training_data = optional(object({
              value              = optional(string)
              uri                = optional(string)
              period             = optional(string)
              requests           = optional(bool)
              responses          = optional(bool)
              encryption_key_arn = optional(string)
            }))
            speculative_tokens = optional(number)
          }))
          ngram = optional(object({
            tensor_parallel_degree = optional(number)
            speculative_tokens     = optional(number)
            prompt_lookup_max      = optional(number)
          }))
          speculator = optional(object({
            tensor_parallel_degree = optional(number)
            model = object({
              huggingface = optional(object({
                model_id           = string
                revision           = optional(string)
                token_secret_arn   = optional(string)
                encryption_key_arn = optional(string)
                allow_pickle       = optional(bool)
                allow_code         = optional(bool)
                compute = optional(object({
                  instance_type      = optional(string)
                  instance_count     = optional(number)
                  volume_size_gb     = optional(number)
                  spot               = optional(bool)
                  spot_wait_seconds  = optional(number)
                  keep_alive_seconds = optional(number)
                  environment        = optional(map(string))
                }))
              }))
              jumpstart = optional(object({
                model_id    = string
                version     = optional(string)
                accept_eula = optional(bool)
              }))
              s3 = optional(object({
                uri                = string
                accept_eula        = optional(bool)
                encryption_key_arn = optional(string)
                manifest_uri       = optional(string)
                manifest_etag      = optional(string)
              }))
            })
            method             = optional(string)
            speculative_tokens = optional(number)
          }))
          mtp = optional(object({ tensor_parallel_degree = optional(number), speculative_tokens = optional(number) }))
        }))
        pre_optimized = optional(object({
          tensor_parallel_degree = optional(number)
          config                 = optional(string)
          accept_draft_eula      = optional(bool)
        }))
        medusa = optional(object({
          tensor_parallel_degree = optional(number)
          compute = optional(object({
            instance_type      = optional(string)
            instance_count     = optional(number)
            volume_size_gb     = optional(number)
            spot               = optional(bool)
            spot_wait_seconds  = optional(number)
            keep_alive_seconds = optional(number)
            environment        = optional(map(string))
          }))
          training_data   = string
          validation_data = optional(string)
          hyperparameters = optional(map(string))
          heads           = optional(number)
          layers          = optional(number)
          base = optional(object({
            tensor_parallel_degree = optional(number)
            compute = optional(object({
              instance_type      = optional(string)
              instance_count     = optional(number)
              volume_size_gb     = optional(number)
              spot               = optional(bool)
              spot_wait_seconds  = optional(number)
              keep_alive_seconds = optional(number)
              environment        = optional(map(string))
            }))
            training_data   = string
            validation_data = optional(string)
            hyperparameters = optional(map(string))
            method          = optional(string)
          }))
        }))
        fine_tune = optional(object({
          tensor_parallel_degree = optional(number)
          compute = optional(object({
            instance_type      = optional(string)
            instance_count     = optional(number)
            volume_size_gb     = optional(number)
            spot               = optional(bool)
            spot_wait_seconds  = optional(number)
            keep_alive_seconds = optional(number)
            environment        = optional(map(string))
          }))
          training_data   = string
          validation_data = optional(string)
          hyperparameters = optional(map(string))
          method          = optional(string)
        }))
      })))
      artifact_key = optional(string)
      environment  = optional(map(string))
      server = optional(object({
        vllm = optional(object({
          container_version       = optional(string)
          context_length          = optional(number)
          max_concurrent_requests = optional(number)
          prefix_caching          = optional(bool)
          chunked_prefill         = optional(bool)
          reasoning_parser        = optional(string)
          tool_call_parser        = optional(string)
          adapters = optional(object({
            max_loaded = optional(number)
            max_cached = optional(number)
            max_rank   = optional(number)
          }))
        }))
        sglang = optional(object({
          container_version       = optional(string)
          context_length          = optional(number)
          max_concurrent_requests = optional(number)
          prefix_caching          = optional(bool)
          chunked_prefill         = optional(bool)
          reasoning_parser        = optional(string)
          tool_call_parser        = optional(string)
          adapters = optional(object({
            max_loaded = optional(number)
            max_cached = optional(number)
            max_rank   = optional(number)
          }))
        }))
        lmi = optional(object({
          container_version       = optional(string)
          context_length          = optional(number)
          max_concurrent_requests = optional(number)
          prefix_caching          = optional(bool)
          chunked_prefill         = optional(bool)
          reasoning_parser        = optional(string)
          tool_call_parser        = optional(string)
          adapters = optional(object({
            max_loaded = optional(number)
            max_cached = optional(number)
            max_rank   = optional(number)
          }))
        }))
        text_generation_inference = optional(object({ container_version = optional(string) }))
      }))
    })))
    objectives = optional(object({
      input_tokens        = number
      output_tokens       = number
      requests_per_second = optional(number)
      time_to_first_token = optional(string)
      inter_token_latency = optional(string)
      max_price_per_hour  = optional(number)
      quality             = optional(string)
      confidence          = optional(number)
    }))
    artifact_store = optional(object({
      value       = optional(string)
      from_bucket = optional(object({ bucket = string, encryption_key = optional(string), read_only = optional(bool) }))
    }))
    artifact_key = optional(string)
    environment  = optional(map(string))
    server = optional(object({
      vllm = optional(object({
        container_version       = optional(string)
        context_length          = optional(number)
        max_concurrent_requests = optional(number)
        prefix_caching          = optional(bool)
        chunked_prefill         = optional(bool)
        reasoning_parser        = optional(string)
        tool_call_parser        = optional(string)
        adapters = optional(object({
          max_loaded = optional(number)
          max_cached = optional(number)
          max_rank   = optional(number)
        }))
      }))
      sglang = optional(object({
        container_version       = optional(string)
        context_length          = optional(number)
        max_concurrent_requests = optional(number)
        prefix_caching          = optional(bool)
        chunked_prefill         = optional(bool)
        reasoning_parser        = optional(string)
        tool_call_parser        = optional(string)
        adapters = optional(object({
          max_loaded = optional(number)
          max_cached = optional(number)
          max_rank   = optional(number)
        }))
      }))
      lmi = optional(object({
        container_version       = optional(string)
        context_length          = optional(number)
        max_concurrent_requests = optional(number)
        prefix_caching          = optional(bool)
        chunked_prefill         = optional(bool)
        reasoning_parser        = optional(string)
        tool_call_parser        = optional(string)
        adapters = optional(object({
          max_loaded = optional(number)
          max_cached = optional(number)
          max_rank   = optional(number)
        }))
      }))
      text_generation_inference = optional(object({ container_version = optional(string) }))
    }))
    inference_component = optional(object({
      value      = optional(bool)
      cpu_cores  = optional(number)
      max_memory = optional(string)
      caching    = optional(bool)
      placement = optional(object({
        spread  = optional(object({ max_zone_imbalance = optional(number) }))
        binpack = optional(object({ max_zone_imbalance = optional(number) }))
      }))
      accelerator_partition = optional(string)
    }))
    variant = optional(object({
      name                        = optional(string)
      initial_instance_count      = optional(number)
      min_instance_count          = optional(number)
      max_instance_count          = optional(number)
      inference_ami_version       = optional(string)
      capacity_reservation        = optional(object({ arn = string }))
      container_startup_timeout   = optional(string)
      model_data_download_timeout = optional(string)
      instance_provision_timeout  = optional(string)
      volume_size                 = optional(string)
      routing = optional(object({
        least_outstanding_requests = optional(object({}))
        random                     = optional(object({}))
        prefix_aware               = optional(object({ prefix_length = optional(number), concurrency_threshold = optional(number) }))
        kv_aware                   = optional(object({}))
      }))
      scale_in = optional(object({
        idle_release  = optional(object({}))
        consolidation = optional(object({ max_step_size = optional(number), cooldown_minutes = optional(number) }))
      }))
      ssm_access             = optional(bool)
      core_dumps             = optional(object({ bucket = string, prefix = optional(string), encryption_key = optional(string) }))
      accelerator_partitions = optional(list(string))
      existing_configuration = optional(string)
    }))
    jobs = optional(object({
      role                 = optional(string)
      max_runtime          = optional(string)
      max_pending          = optional(string)
      capacity_reservation = optional(object({ arn = string }))
      timeout              = optional(string)
    }))
    monitoring = optional(object({
      alarms = optional(object({
        value = optional(string)
        error_rate = optional(object({
          value               = optional(bool)
          threshold           = optional(number)
          period_seconds      = optional(number)
          evaluation_periods  = optional(number)
          datapoints_to_alarm = optional(number)
          minimum_count       = optional(number)
          actions_enabled     = optional(bool)
        }))
        latency = optional(object({
          value               = optional(bool)
          threshold           = optional(number)
          period_seconds      = optional(number)
          evaluation_periods  = optional(number)
          datapoints_to_alarm = optional(number)
          minimum_count       = optional(number)
          actions_enabled     = optional(bool)
        }))
        time_to_first_token = optional(object({
          value               = optional(bool)
          threshold           = optional(number)
          period_seconds      = optional(number)
          evaluation_periods  = optional(number)
          datapoints_to_alarm = optional(number)
          minimum_count       = optional(number)
          actions_enabled     = optional(bool)
        }))
        queue = optional(object({
          value               = optional(bool)
          threshold           = optional(number)
          period_seconds      = optional(number)
          evaluation_periods  = optional(number)
          datapoints_to_alarm = optional(number)
          minimum_count       = optional(number)
          actions_enabled     = optional(bool)
        }))
        kv_cache = optional(object({
          value               = optional(bool)
          threshold           = optional(number)
          period_seconds      = optional(number)
          evaluation_periods  = optional(number)
          datapoints_to_alarm = optional(number)
          minimum_count       = optional(number)
          actions_enabled     = optional(bool)
        }))
        acceptance_length = optional(object({
          value               = optional(bool)
          threshold           = optional(number)
          period_seconds      = optional(number)
          evaluation_periods  = optional(number)
          datapoints_to_alarm = optional(number)
          minimum_count       = optional(number)
          actions_enabled     = optional(bool)
        }))
        acceptance_decay = optional(object({
          value               = optional(bool)
          threshold           = optional(number)
          period_seconds      = optional(number)
          evaluation_periods  = optional(number)
          datapoints_to_alarm = optional(number)
          minimum_count       = optional(number)
          actions_enabled     = optional(bool)
        }))
        saturation = optional(object({
          value               = optional(bool)
          threshold           = optional(number)
          period_seconds      = optional(number)
          evaluation_periods  = optional(number)
          datapoints_to_alarm = optional(number)
          minimum_count       = optional(number)
          actions_enabled     = optional(bool)
        }))
        zero_capacity = optional(object({
          value               = optional(bool)
          threshold           = optional(number)
          period_seconds      = optional(number)
          evaluation_periods  = optional(number)
          datapoints_to_alarm = optional(number)
          minimum_count       = optional(number)
          actions_enabled     = optional(bool)
        }))
        disk = optional(object({
          value               = optional(bool)
          threshold           = optional(number)
          period_seconds      = optional(number)
          evaluation_periods  = optional(number)
          datapoints_to_alarm = optional(number)
          minimum_count       = optional(number)
          actions_enabled     = optional(bool)
        }))
        failed_job = optional(object({
          value               = optional(bool)
          threshold           = optional(number)
          period_seconds      = optional(number)
          evaluation_periods  = optional(number)
          datapoints_to_alarm = optional(number)
          minimum_count       = optional(number)
          actions_enabled     = optional(bool)
        }))
        stale_evaluation = optional(object({
          value               = optional(bool)
          threshold           = optional(number)
          period_seconds      = optional(number)
          evaluation_periods  = optional(number)
          datapoints_to_alarm = optional(number)
          minimum_count       = optional(number)
          actions_enabled     = optional(bool)
        }))
      }))
      alarm_actions = optional(list(string))
      ok_actions    = optional(list(string))
      observability = optional(object({
        frequency_seconds = optional(number)
        enhanced          = optional(bool)
        detailed          = optional(bool)
      }))
      instance_price_per_hour = optional(number)
      discount                = optional(number)
      speculation_cure = optional(object({
        restart        = optional(object({ at_most_every_hours = optional(number) }))
        shorter_drafts = optional(object({ speculative_tokens = number }))
        drafts_off     = optional(object({}))
        train_anew     = optional(object({}))
      }))
      runbook = optional(string)
    }))
    update_policy = optional(object({
      all_at_once = optional(object({
        bake_time       = optional(string)
        timeout         = optional(string)
        rollback_alarms = optional(list(string))
      }))
      canary = optional(object({
        bake_time        = optional(string)
        timeout          = optional(string)
        rollback_alarms  = optional(list(string))
        percent          = optional(number)
        instances        = optional(number)
        termination_wait = optional(string)
      }))
      linear = optional(object({
        bake_time        = optional(string)
        timeout          = optional(string)
        rollback_alarms  = optional(list(string))
        percent          = optional(number)
        instances        = optional(number)
        termination_wait = optional(string)
      }))
      rolling = optional(object({
        percent          = optional(number)
        instances        = optional(number)
        rollback_percent = optional(number)
        bake_time        = optional(string)
        timeout          = optional(string)
        rollback_alarms  = optional(list(string))
      }))
    }))
    async_inference = optional(object({
      bucket                                  = string
      prefix                                  = optional(string)
      input_bucket                            = optional(string)
      max_concurrent_invocations_per_instance = optional(number)
      success_topic                           = optional(string)
      error_topic                             = optional(string)
      include_responses_in                    = optional(list(string))
      encryption_key                          = optional(string)
    }))
    data_capture = optional(object({
      bucket              = string
      prefix              = optional(string)
      sampling_percentage = optional(number)
      requests            = optional(bool)
      responses           = optional(bool)
      encryption_key      = optional(string)
      json_content_types  = optional(list(string))
    }))
    endpoint_name  = optional(string)
    encryption_key = optional(string)
    network = optional(object({
      vpc             = optional(object({ vpc_id = string, subnet_ids = list(string) }))
      security_groups = optional(list(string))
      isolation       = optional(bool)
    }))
    role           = optional(string)
    removal_policy = optional(string)
    components = optional(map(object({
      model = object({
        huggingface = optional(object({
          model_id           = string
          revision           = optional(string)
          token_secret_arn   = optional(string)
          encryption_key_arn = optional(string)
          allow_pickle       = optional(bool)
          allow_code         = optional(bool)
          compute = optional(object({
            instance_type      = optional(string)
            instance_count     = optional(number)
            volume_size_gb     = optional(number)
            spot               = optional(bool)
            spot_wait_seconds  = optional(number)
            keep_alive_seconds = optional(number)
            environment        = optional(map(string))
          }))
        }))
        jumpstart = optional(object({ model_id = string, version = optional(string), accept_eula = optional(bool) }))
        s3 = optional(object({
          uri                = string
          accept_eula        = optional(bool)
          encryption_key_arn = optional(string)
          manifest_uri       = optional(string)
          manifest_etag      = optional(string)
        }))
      })
      techniques = optional(list(object({
        compilation = optional(object({
          neuron = optional(object({
            tensor_parallel_degree  = optional(number)
            dtype                   = optional(string)
            maximum_batch_size      = optional(number)
            optimize_level          = optional(number)
            maximum_sequence_length = optional(number)
          }))
          tensorrt_llm = optional(object({
            tensor_parallel_degree = optional(number)
            maximum_input_length   = optional(number)
            maximum_output_length  = optional(number)
            maximum_batch_size     = optional(number)
          }))
        }))
        kv_cache = optional(object({
          fp8 = optional(object({ tensor_parallel_degree = optional(number) }))
        }))
        quantization = optional(object({
          awq = optional(object({
            tensor_parallel_degree = optional(number)
            checkpoint = optional(object({
              huggingface = optional(object({
                model_id           = string
                revision           = optional(string)
                token_secret_arn   = optional(string)
                encryption_key_arn = optional(string)
                allow_pickle       = optional(bool)
                allow_code         = optional(bool)
                compute = optional(object({
                  instance_type      = optional(string)
                  instance_count     = optional(number)
                  volume_size_gb     = optional(number)
                  spot               = optional(bool)
                  spot_wait_seconds  = optional(number)
                  keep_alive_seconds = optional(number)
                  environment        = optional(map(string))
                }))
              }))
              jumpstart = optional(object({
                model_id    = string
                version     = optional(string)
                accept_eula = optional(bool)
              }))
              s3 = optional(object({
                uri                = string
                accept_eula        = optional(bool)
                encryption_key_arn = optional(string)
                manifest_uri       = optional(string)
                manifest_etag      = optional(string)
              }))
            }))
            group_size     = optional(number)
            ignored_layers = optional(list(string))
          }))
          fp8 = optional(object({
            tensor_parallel_degree = optional(number)
            checkpoint = optional(object({
              huggingface = optional(object({
                model_id           = string
                revision           = optional(string)
                token_secret_arn   = optional(string)
                encryption_key_arn = optional(string)
                allow_pickle       = optional(bool)
                allow_code         = optional(bool)
                compute = optional(object({
                  instance_type      = optional(string)
                  instance_count     = optional(number)
                  volume_size_gb     = optional(number)
                  spot               = optional(bool)
                  spot_wait_seconds  = optional(number)
                  keep_alive_seconds = optional(number)
                  environment        = optional(map(string))
                }))
              }))
              jumpstart = optional(object({
                model_id    = string
                version     = optional(string)
                accept_eula = optional(bool)
              }))
              s3 = optional(object({
                uri                = string
                accept_eula        = optional(bool)
                encryption_key_arn = optional(string)
                manifest_uri       = optional(string)
                manifest_etag      = optional(string)
              }))
            }))
            scheme             = optional(string)
            ignored_layers     = optional(list(string))
            calibration_size   = optional(number)
            calibration_length = optional(number)
          }))
          smoothquant = optional(object({
            tensor_parallel_degree = optional(number)
            checkpoint = optional(object({
              huggingface = optional(object({
                model_id           = string
                revision           = optional(string)
                token_secret_arn   = optional(string)
                encryption_key_arn = optional(string)
                allow_pickle       = optional(bool)
                allow_code         = optional(bool)
                compute = optional(object({
                  instance_type      = optional(string)
                  instance_count     = optional(number)
                  volume_size_gb     = optional(number)
                  spot               = optional(bool)
                  spot_wait_seconds  = optional(number)
                  keep_alive_seconds = optional(number)
                  environment        = optional(map(string))
                }))
              }))
              jumpstart = optional(object({
                model_id    = string
                version     = optional(string)
                accept_eula = optional(bool)
              }))
              s3 = optional(object({
                uri                = string
                accept_eula        = optional(bool)
                encryption_key_arn = optional(string)
                manifest_uri       = optional(string)
                manifest_etag      = optional(string)
              }))
            }))
            alpha            = optional(number)
            per_token        = optional(bool)
            per_channel      = optional(bool)
            calibration_size = optional(number)
          }))
          fp8_block = optional(object({
            tensor_parallel_degree = optional(number)
            compute = optional(object({
              instance_type      = optional(string)
              instance_count     = optional(number)
              volume_size_gb     = optional(number)
              spot               = optional(bool)
              spot_wait_seconds  = optional(number)
              keep_alive_seconds = optional(number)
              environment        = optional(map(string))
            }))
            checkpoint = optional(object({
              huggingface = optional(object({
                model_id           = string
                revision           = optional(string)
                token_secret_arn   = optional(string)
                encryption_key_arn = optional(string)
                allow_pickle       = optional(bool)
                allow_code         = optional(bool)
                compute = optional(object({
                  instance_type      = optional(string)
                  instance_count     = optional(number)
                  volume_size_gb     = optional(number)
                  spot               = optional(bool)
                  spot_wait_seconds  = optional(number)
                  keep_alive_seconds = optional(number)
                  environment        = optional(map(string))
                }))
              }))
              jumpstart = optional(object({
                model_id    = string
                version     = optional(string)
                accept_eula = optional(bool)
              }))
              s3 = optional(object({
                uri                = string
                accept_eula        = optional(bool)
                encryption_key_arn = optional(string)
                manifest_uri       = optional(string)
                manifest_etag      = optional(string)
              }))
            }))
            ignored_layers = optional(list(string))
          }))
          fp8_dynamic = optional(object({
            tensor_parallel_degree = optional(number)
            compute = optional(object({
              instance_type      = optional(string)
              instance_count     = optional(number)
              volume_size_gb     = optional(number)
              spot               = optional(bool)
              spot_wait_seconds  = optional(number)
              keep_alive_seconds = optional(number)
              environment        = optional(map(string))
            }))
            checkpoint = optional(object({
              huggingface = optional(object({
                model_id           = string
                revision           = optional(string)
                token_secret_arn   = optional(string)
                encryption_key_arn = optional(string)
                allow_pickle       = optional(bool)
                allow_code         = optional(bool)
                compute = optional(object({
                  instance_type      = optional(string)
                  instance_count     = optional(number)
                  volume_size_gb     = optional(number)
                  spot               = optional(bool)
                  spot_wait_seconds  = optional(number)
                  keep_alive_seconds = optional(number)
                  environment        = optional(map(string))
                }))
              }))
              jumpstart = optional(object({
                model_id    = string
                version     = optional(string)
                accept_eula = optional(bool)
              }))
              s3 = optional(object({
                uri                = string
                accept_eula        = optional(bool)
                encryption_key_arn = optional(string)
                manifest_uri       = optional(string)
                manifest_etag      = optional(string)
              }))
            }))
            ignored_layers = optional(list(string))
          }))
          w4a16 = optional(object({
            tensor_parallel_degree = optional(number)
            compute = optional(object({
              instance_type      = optional(string)
              instance_count     = optional(number)
              volume_size_gb     = optional(number)
              spot               = optional(bool)
              spot_wait_seconds  = optional(number)
              keep_alive_seconds = optional(number)
              environment        = optional(map(string))
            }))
            checkpoint = optional(object({
              huggingface = optional(object({
                model_id           = string
                revision           = optional(string)
                token_secret_arn   = optional(string)
                encryption_key_arn = optional(string)
                allow_pickle       = optional(bool)
                allow_code         = optional(bool)
                compute = optional(object({
                  instance_type      = optional(string)
                  instance_count     = optional(number)
                  volume_size_gb     = optional(number)
                  spot               = optional(bool)
                  spot_wait_seconds  = optional(number)
                  keep_alive_seconds = optional(number)
                  environment        = optional(map(string))
                }))
              }))
              jumpstart = optional(object({
                model_id    = string
                version     = optional(string)
                accept_eula = optional(bool)
              }))
              s3 = optional(object({
                uri                = string
                accept_eula        = optional(bool)
                encryption_key_arn = optional(string)
                manifest_uri       = optional(string)
                manifest_etag      = optional(string)
              }))
            }))
            ignored_layers     = optional(list(string))
            calibration_data   = optional(string)
            calibration_size   = optional(number)
            calibration_length = optional(number)
            algorithm          = optional(string)
          }))
          nvfp4 = optional(object({
            tensor_parallel_degree = optional(number)
            compute = optional(object({
              instance_type      = optional(string)
              instance_count     = optional(number)
              volume_size_gb     = optional(number)
              spot               = optional(bool)
              spot_wait_seconds  = optional(number)
              keep_alive_seconds = optional(number)
              environment        = optional(map(string))
            }))
            checkpoint = optional(object({
              huggingface = optional(object({
                model_id           = string
                revision           = optional(string)
                token_secret_arn   = optional(string)
                encryption_key_arn = optional(string)
                allow_pickle       = optional(bool)
                allow_code         = optional(bool)
                compute = optional(object({
                  instance_type      = optional(string)
                  instance_count     = optional(number)
                  volume_size_gb     = optional(number)
                  spot               = optional(bool)
                  spot_wait_seconds  = optional(number)
                  keep_alive_seconds = optional(number)
                  environment        = optional(map(string))
                }))
              }))
              jumpstart = optional(object({
                model_id    = string
                version     = optional(string)
                accept_eula = optional(bool)
              }))
              s3 = optional(object({
                uri                = string
                accept_eula        = optional(bool)
                encryption_key_arn = optional(string)
                manifest_uri       = optional(string)
                manifest_etag      = optional(string)
              }))
            }))
            ignored_layers     = optional(list(string))
            calibration_data   = optional(string)
            calibration_size   = optional(number)
            calibration_length = optional(number)
          }))
          mxfp4 = optional(object({
            tensor_parallel_degree = optional(number)
            compute = optional(object({
              instance_type      = optional(string)
              instance_count     = optional(number)
              volume_size_gb     = optional(number)
              spot               = optional(bool)
              spot_wait_seconds  = optional(number)
              keep_alive_seconds = optional(number)
              environment        = optional(map(string))
            }))
            checkpoint = optional(object({
              huggingface = optional(object({
                model_id           = string
                revision           = optional(string)
                token_secret_arn   = optional(string)
                encryption_key_arn = optional(string)
                allow_pickle       = optional(bool)
                allow_code         = optional(bool)
                compute = optional(object({
                  instance_type      = optional(string)
                  instance_count     = optional(number)
                  volume_size_gb     = optional(number)
                  spot               = optional(bool)
                  spot_wait_seconds  = optional(number)
                  keep_alive_seconds = optional(number)
                  environment        = optional(map(string))
                }))
              }))
              jumpstart = optional(object({
                model_id    = string
                version     = optional(string)
                accept_eula = optional(bool)
              }))
              s3 = optional(object({
                uri                = string
                accept_eula        = optional(bool)
                encryption_key_arn = optional(string)
                manifest_uri       = optional(string)
                manifest_etag      = optional(string)
              }))
            }))
            ignored_layers = optional(list(string))
          }))
        }))
        sharding = optional(object({
          fast_load = optional(object({ tensor_parallel_degree = optional(number) }))
        }))
        speculative_decoding = optional(object({
          sagemaker_draft = optional(object({
            tensor_parallel_degree = optional(number)
            speculative_tokens     = optional(number)
          }))
          jumpstart_draft = optional(object({
            tensor_parallel_degree = optional(number)
            speculative_tokens     = optional(number)
            model_id               = string
            version                = optional(string)
            accept_eula            = optional(bool)
          }))
          custom_draft = optional(object({
            tensor_parallel_degree = optional(number)
            speculative_tokens     = optional(number)
            model = optional(object({
              huggingface = optional(object({
                model_id           = string
                revision           = optional(string)
                token_secret_arn   = optional(string)
                encryption_key_arn = optional(string)
                allow_pickle       = optional(bool)
                allow_code         = optional(bool)
                compute = optional(object({
                  instance_type      = optional(string)
                  instance_count     = optional(number)
                  volume_size_gb     = optional(number)
                  spot               = optional(bool)
                  spot_wait_seconds  = optional(number)
                  keep_alive_seconds = optional(number)
                  environment        = optional(map(string))
                }))
              }))
              jumpstart = optional(object({
                model_id    = string
                version     = optional(string)
                accept_eula = optional(bool)
              }))
              s3 = optional(object({
                uri                = string
                accept_eula        = optional(bool)
                encryption_key_arn = optional(string)
                manifest_uri       = optional(string)
                manifest_etag      = optional(string)
              }))
            }))
            uri         = optional(string)
            accept_eula = optional(bool)
          }))
          eagle = optional(object({
            tensor_parallel_degree = optional(number)
            training_data = optional(object({
              value              = optional(string)
              uri                = optional(string)
              period             = optional(string)
              requests           = optional(bool)
              responses          = optional(bool)
              encryption_key_arn = optional(string)
            }))
            speculative_tokens = optional(number)
          }))
          ngram = optional(object({
            tensor_parallel_degree = optional(number)
            speculative_tokens     = optional(number)
            prompt_lookup_max      = optional(number)
          }))
          speculator = optional(object({
            tensor_parallel_degree = optional(number)
            model = object({
              huggingface = optional(object({
                model_id           = string
                revision           = optional(string)
                token_secret_arn   = optional(string)
                encryption_key_arn = optional(string)
                allow_pickle       = optional(bool)
                allow_code         = optional(bool)
                compute = optional(object({
                  instance_type      = optional(string)
                  instance_count     = optional(number)
                  volume_size_gb     = optional(number)
                  spot               = optional(bool)
                  spot_wait_seconds  = optional(number)
                  keep_alive_seconds = optional(number)
                  environment        = optional(map(string))
                }))
              }))
              jumpstart = optional(object({
                model_id    = string
                version     = optional(string)
                accept_eula = optional(bool)
              }))
              s3 = optional(object({
                uri                = string
                accept_eula        = optional(bool)
                encryption_key_arn = optional(string)
                manifest_uri       = optional(string)
                manifest_etag      = optional(string)
              }))
            })
            method             = optional(string)
            speculative_tokens = optional(number)
          }))
          mtp = optional(object({ tensor_parallel_degree = optional(number), speculative_tokens = optional(number) }))
        }))
        pre_optimized = optional(object({
          tensor_parallel_degree = optional(number)
          config                 = optional(string)
          accept_draft_eula      = optional(bool)
        }))
        medusa = optional(object({
          tensor_parallel_degree = optional(number)
          compute = optional(object({
            instance_type      = optional(string)
            instance_count     = optional(number)
            volume_size_gb     = optional(number)
            spot               = optional(bool)
            spot_wait_seconds  = optional(number)
            keep_alive_seconds = optional(number)
            environment        = optional(map(string))
          }))
          training_data   = string
          validation_data = optional(string)
          hyperparameters = optional(map(string))
          heads           = optional(number)
          layers          = optional(number)
          base = optional(object({
            tensor_parallel_degree = optional(number)
            compute = optional(object({
              instance_type      = optional(string)
              instance_count     = optional(number)
              volume_size_gb     = optional(number)
              spot               = optional(bool)
              spot_wait_seconds  = optional(number)
              keep_alive_seconds = optional(number)
              environment        = optional(map(string))
            }))
            training_data   = string
            validation_data = optional(string)
            hyperparameters = optional(map(string))
            method          = optional(string)
          }))
        }))
        fine_tune = optional(object({
          tensor_parallel_degree = optional(number)
          compute = optional(object({
            instance_type      = optional(string)
            instance_count     = optional(number)
            volume_size_gb     = optional(number)
            spot               = optional(bool)
            spot_wait_seconds  = optional(number)
            keep_alive_seconds = optional(number)
            environment        = optional(map(string))
          }))
          training_data   = string
          validation_data = optional(string)
          hyperparameters = optional(map(string))
          method          = optional(string)
        }))
      })))
      instance_pools = optional(list(object({
        instance_type = string
        techniques = optional(list(object({
          compilation = optional(object({
            neuron = optional(object({
              tensor_parallel_degree  = optional(number)
              dtype                   = optional(string)
              maximum_batch_size      = optional(number)
              optimize_level          = optional(number)
              maximum_sequence_length = optional(number)
            }))
            tensorrt_llm = optional(object({
              tensor_parallel_degree = optional(number)
              maximum_input_length   = optional(number)
              maximum_output_length  = optional(number)
              maximum_batch_size     = optional(number)
            }))
          }))
          kv_cache = optional(object({
            fp8 = optional(object({ tensor_parallel_degree = optional(number) }))
          }))
          quantization = optional(object({
            awq = optional(object({
              tensor_parallel_degree = optional(number)
              checkpoint = optional(object({
                huggingface = optional(object({
                  model_id           = string
                  revision           = optional(string)
                  token_secret_arn   = optional(string)
                  encryption_key_arn = optional(string)
                  allow_pickle       = optional(bool)
                  allow_code         = optional(bool)
                  compute = optional(object({
                    instance_type      = optional(string)
                    instance_count     = optional(number)
                    volume_size_gb     = optional(number)
                    spot               = optional(bool)
                    spot_wait_seconds  = optional(number)
                    keep_alive_seconds = optional(number)
                    environment        = optional(map(string))
                  }))
                }))
                jumpstart = optional(object({
                  model_id    = string
                  version     = optional(string)
                  accept_eula = optional(bool)
                }))
                s3 = optional(object({
                  uri                = string
                  accept_eula        = optional(bool)
                  encryption_key_arn = optional(string)
                  manifest_uri       = optional(string)
                  manifest_etag      = optional(string)
                }))
              }))
              group_size     = optional(number)
              ignored_layers = optional(list(string))
            }))
            fp8 = optional(object({
              tensor_parallel_degree = optional(number)
              checkpoint = optional(object({
                huggingface = optional(object({
                  model_id           = string
                  revision           = optional(string)
                  token_secret_arn   = optional(string)
                  encryption_key_arn = optional(string)
                  allow_pickle       = optional(bool)
                  allow_code         = optional(bool)
                  compute = optional(object({
                    instance_type      = optional(string)
                    instance_count     = optional(number)
                    volume_size_gb     = optional(number)
                    spot               = optional(bool)
                    spot_wait_seconds  = optional(number)
                    keep_alive_seconds = optional(number)
                    environment        = optional(map(string))
                  }))
                }))
                jumpstart = optional(object({
                  model_id    = string
                  version     = optional(string)
                  accept_eula = optional(bool)
                }))
                s3 = optional(object({
                  uri                = string
                  accept_eula        = optional(bool)
                  encryption_key_arn = optional(string)
                  manifest_uri       = optional(string)
                  manifest_etag      = optional(string)
                }))
              }))
              scheme             = optional(string)
              ignored_layers     = optional(list(string))
              calibration_size   = optional(number)
              calibration_length = optional(number)
            }))
            smoothquant = optional(object({
              tensor_parallel_degree = optional(number)
              checkpoint = optional(object({
                huggingface = optional(object({
                  model_id           = string
                  revision           = optional(string)
                  token_secret_arn   = optional(string)
                  encryption_key_arn = optional(string)
                  allow_pickle       = optional(bool)
                  allow_code         = optional(bool)
                  compute = optional(object({
                    instance_type      = optional(string)
                    instance_count     = optional(number)
                    volume_size_gb     = optional(number)
                    spot               = optional(bool)
                    spot_wait_seconds  = optional(number)
                    keep_alive_seconds = optional(number)
                    environment        = optional(map(string))
                  }))
                }))
                jumpstart = optional(object({
                  model_id    = string
                  version     = optional(string)
                  accept_eula = optional(bool)
                }))
                s3 = optional(object({
                  uri                = string
                  accept_eula        = optional(bool)
                  encryption_key_arn = optional(string)
                  manifest_uri       = optional(string)
                  manifest_etag      = optional(string)
                }))
              }))
              alpha            = optional(number)
              per_token        = optional(bool)
              per_channel      = optional(bool)
              calibration_size = optional(number)
            }))
            fp8_block = optional(object({
              tensor_parallel_degree = optional(number)
              compute = optional(object({
                instance_type      = optional(string)
                instance_count     = optional(number)
                volume_size_gb     = optional(number)
                spot               = optional(bool)
                spot_wait_seconds  = optional(number)
                keep_alive_seconds = optional(number)
                environment        = optional(map(string))
              }))
              checkpoint = optional(object({
                huggingface = optional(object({
                  model_id           = string
                  revision           = optional(string)
                  token_secret_arn   = optional(string)
                  encryption_key_arn = optional(string)
                  allow_pickle       = optional(bool)
                  allow_code         = optional(bool)
                  compute = optional(object({
                    instance_type      = optional(string)
                    instance_count     = optional(number)
                    volume_size_gb     = optional(number)
                    spot               = optional(bool)
                    spot_wait_seconds  = optional(number)
                    keep_alive_seconds = optional(number)
                    environment        = optional(map(string))
                  }))
                }))
                jumpstart = optional(object({
                  model_id    = string
                  version     = optional(string)
                  accept_eula = optional(bool)
                }))
                s3 = optional(object({
                  uri                = string
                  accept_eula        = optional(bool)
                  encryption_key_arn = optional(string)
                  manifest_uri       = optional(string)
                  manifest_etag      = optional(string)
                }))
              }))
              ignored_layers = optional(list(string))
            }))
            fp8_dynamic = optional(object({
              tensor_parallel_degree = optional(number)
              compute = optional(object({
                instance_type      = optional(string)
                instance_count     = optional(number)
                volume_size_gb     = optional(number)
                spot               = optional(bool)
                spot_wait_seconds  = optional(number)
                keep_alive_seconds = optional(number)
                environment        = optional(map(string))
              }))
              checkpoint = optional(object({
                huggingface = optional(object({
                  model_id           = string
                  revision           = optional(string)
                  token_secret_arn   = optional(string)
                  encryption_key_arn = optional(string)
                  allow_pickle       = optional(bool)
                  allow_code         = optional(bool)
                  compute = optional(object({
                    instance_type      = optional(string)
                    instance_count     = optional(number)
                    volume_size_gb     = optional(number)
                    spot               = optional(bool)
                    spot_wait_seconds  = optional(number)
                    keep_alive_seconds = optional(number)
                    environment        = optional(map(string))
                  }))
                }))
                jumpstart = optional(object({
                  model_id    = string
                  version     = optional(string)
                  accept_eula = optional(bool)
                }))
                s3 = optional(object({
                  uri                = string
                  accept_eula        = optional(bool)
                  encryption_key_arn = optional(string)
                  manifest_uri       = optional(string)
                  manifest_etag      = optional(string)
                }))
              }))
              ignored_layers = optional(list(string))
            }))
            w4a16 = optional(object({
              tensor_parallel_degree = optional(number)
              compute = optional(object({
                instance_type      = optional(string)
                instance_count     = optional(number)
                volume_size_gb     = optional(number)
                spot               = optional(bool)
                spot_wait_seconds  = optional(number)
                keep_alive_seconds = optional(number)
                environment        = optional(map(string))
              }))
              checkpoint = optional(object({
                huggingface = optional(object({
                  model_id           = string
                  revision           = optional(string)
                  token_secret_arn   = optional(string)
                  encryption_key_arn = optional(string)
                  allow_pickle       = optional(bool)
                  allow_code         = optional(bool)
                  compute = optional(object({
                    instance_type      = optional(string)
                    instance_count     = optional(number)
                    volume_size_gb     = optional(number)
                    spot               = optional(bool)
                    spot_wait_seconds  = optional(number)
                    keep_alive_seconds = optional(number)
                    environment        = optional(map(string))
                  }))
                }))
                jumpstart = optional(object({
                  model_id    = string
                  version     = optional(string)
                  accept_eula = optional(bool)
                }))
                s3 = optional(object({
                  uri                = string
                  accept_eula        = optional(bool)
                  encryption_key_arn = optional(string)
                  manifest_uri       = optional(string)
                  manifest_etag      = optional(string)
                }))
              }))
              ignored_layers     = optional(list(string))
              calibration_data   = optional(string)
              calibration_size   = optional(number)
              calibration_length = optional(number)
              algorithm          = optional(string)
            }))
            nvfp4 = optional(object({
              tensor_parallel_degree = optional(number)
              compute = optional(object({
                instance_type      = optional(string)
                instance_count     = optional(number)
                volume_size_gb     = optional(number)
                spot               = optional(bool)
                spot_wait_seconds  = optional(number)
                keep_alive_seconds = optional(number)
                environment        = optional(map(string))
              }))
              checkpoint = optional(object({
                huggingface = optional(object({
                  model_id           = string
                  revision           = optional(string)
                  token_secret_arn   = optional(string)
                  encryption_key_arn = optional(string)
                  allow_pickle       = optional(bool)
                  allow_code         = optional(bool)
                  compute = optional(object({
                    instance_type      = optional(string)
                    instance_count     = optional(number)
                    volume_size_gb     = optional(number)
                    spot               = optional(bool)
                    spot_wait_seconds  = optional(number)
                    keep_alive_seconds = optional(number)
                    environment        = optional(map(string))
                  }))
                }))
                jumpstart = optional(object({
                  model_id    = string
                  version     = optional(string)
                  accept_eula = optional(bool)
                }))
                s3 = optional(object({
                  uri                = string
                  accept_eula        = optional(bool)
                  encryption_key_arn = optional(string)
                  manifest_uri       = optional(string)
                  manifest_etag      = optional(string)
                }))
              }))
              ignored_layers     = optional(list(string))
              calibration_data   = optional(string)
              calibration_size   = optional(number)
              calibration_length = optional(number)
            }))
            mxfp4 = optional(object({
              tensor_parallel_degree = optional(number)
              compute = optional(object({
                instance_type      = optional(string)
                instance_count     = optional(number)
                volume_size_gb     = optional(number)
                spot               = optional(bool)
                spot_wait_seconds  = optional(number)
                keep_alive_seconds = optional(number)
                environment        = optional(map(string))
              }))
              checkpoint = optional(object({
                huggingface = optional(object({
                  model_id           = string
                  revision           = optional(string)
                  token_secret_arn   = optional(string)
                  encryption_key_arn = optional(string)
                  allow_pickle       = optional(bool)
                  allow_code         = optional(bool)
                  compute = optional(object({
                    instance_type      = optional(string)
                    instance_count     = optional(number)
                    volume_size_gb     = optional(number)
                    spot               = optional(bool)
                    spot_wait_seconds  = optional(number)
                    keep_alive_seconds = optional(number)
                    environment        = optional(map(string))
                  }))
                }))
                jumpstart = optional(object({
                  model_id    = string
                  version     = optional(string)
                  accept_eula = optional(bool)
                }))
                s3 = optional(object({
                  uri                = string
                  accept_eula        = optional(bool)
                  encryption_key_arn = optional(string)
                  manifest_uri       = optional(string)
                  manifest_etag      = optional(string)
                }))
              }))
              ignored_layers = optional(list(string))
            }))
          }))
          sharding = optional(object({
            fast_load = optional(object({ tensor_parallel_degree = optional(number) }))
          }))
          speculative_decoding = optional(object({
            sagemaker_draft = optional(object({
              tensor_parallel_degree = optional(number)
              speculative_tokens     = optional(number)
            }))
            jumpstart_draft = optional(object({
              tensor_parallel_degree = optional(number)
              speculative_tokens     = optional(number)
              model_id               = string
              version                = optional(string)
              accept_eula            = optional(bool)
            }))
            custom_draft = optional(object({
              tensor_parallel_degree = optional(number)
              speculative_tokens     = optional(number)
              model = optional(object({
                huggingface = optional(object({
                  model_id           = string
                  revision           = optional(string)
                  token_secret_arn   = optional(string)
                  encryption_key_arn = optional(string)
                  allow_pickle       = optional(bool)
                  allow_code         = optional(bool)
                  compute = optional(object({
                    instance_type      = optional(string)
                    instance_count     = optional(number)
                    volume_size_gb     = optional(number)
                    spot               = optional(bool)
                    spot_wait_seconds  = optional(number)
                    keep_alive_seconds = optional(number)
                    environment        = optional(map(string))
                  }))
                }))
                jumpstart = optional(object({
                  model_id    = string
                  version     = optional(string)
                  accept_eula = optional(bool)
                }))
                s3 = optional(object({
                  uri                = string
                  accept_eula        = optional(bool)
                  encryption_key_arn = optional(string)
                  manifest_uri       = optional(string)
                  manifest_etag      = optional(string)
                }))
              }))
              uri         = optional(string)
              accept_eula = optional(bool)
            }))
            eagle = optional(object({
              tensor_parallel_degree = optional(number)
              training_data = optional(object({
                value              = optional(string)
                uri                = optional(string)
                period             = optional(string)
                requests           = optional(bool)
                responses          = optional(bool)
                encryption_key_arn = optional(string)
              }))
              speculative_tokens = optional(number)
            }))
            ngram = optional(object({
              tensor_parallel_degree = optional(number)
              speculative_tokens     = optional(number)
              prompt_lookup_max      = optional(number)
            }))
            speculator = optional(object({
              tensor_parallel_degree = optional(number)
              model = object({
                huggingface = optional(object({
                  model_id           = string
                  revision           = optional(string)
                  token_secret_arn   = optional(string)
                  encryption_key_arn = optional(string)
                  allow_pickle       = optional(bool)
                  allow_code         = optional(bool)
                  compute = optional(object({
                    instance_type      = optional(string)
                    instance_count     = optional(number)
                    volume_size_gb     = optional(number)
                    spot               = optional(bool)
                    spot_wait_seconds  = optional(number)
                    keep_alive_seconds = optional(number)
                    environment        = optional(map(string))
                  }))
                }))
                jumpstart = optional(object({
                  model_id    = string
                  version     = optional(string)
                  accept_eula = optional(bool)
                }))
                s3 = optional(object({
                  uri                = string
                  accept_eula        = optional(bool)
                  encryption_key_arn = optional(string)
                  manifest_uri       = optional(string)
                  manifest_etag      = optional(string)
                }))
              })
              method             = optional(string)
              speculative_tokens = optional(number)
            }))
            mtp = optional(object({ tensor_parallel_degree = optional(number), speculative_tokens = optional(number) }))
          }))
          pre_optimized = optional(object({
            tensor_parallel_degree = optional(number)
            config                 = optional(string)
            accept_draft_eula      = optional(bool)
          }))
          medusa = optional(object({
            tensor_parallel_degree = optional(number)
            compute = optional(object({
              instance_type      = optional(string)
              instance_count     = optional(number)
              volume_size_gb     = optional(number)
              spot               = optional(bool)
              spot_wait_seconds  = optional(number)
              keep_alive_seconds = optional(number)
              environment        = optional(map(string))
            }))
            training_data   = string
            validation_data = optional(string)
            hyperparameters = optional(map(string))
            heads           = optional(number)
            layers          = optional(number)
            base = optional(object({
              tensor_parallel_degree = optional(number)
              compute = optional(object({
                instance_type      = optional(string)
                instance_count     = optional(number)
                volume_size_gb     = optional(number)
                spot               = optional(bool)
                spot_wait_seconds  = optional(number)
                keep_alive_seconds = optional(number)
                environment        = optional(map(string))
              }))
              training_data   = string
              validation_data = optional(string)
              hyperparameters = optional(map(string))
              method          = optional(string)
            }))
          }))
          fine_tune = optional(object({
            tensor_parallel_degree = optional(number)
            compute = optional(object({
              instance_type      = optional(string)
              instance_count     = optional(number)
              volume_size_gb     = optional(number)
              spot               = optional(bool)
              spot_wait_seconds  = optional(number)
              keep_alive_seconds = optional(number)
              environment        = optional(map(string))
            }))
            training_data   = string
            validation_data = optional(string)
            hyperparameters = optional(map(string))
            method          = optional(string)
          }))
        })))
        artifact_key = optional(string)
        environment  = optional(map(string))
        server = optional(object({
          vllm = optional(object({
            container_version       = optional(string)
            context_length          = optional(number)
            max_concurrent_requests = optional(number)
            prefix_caching          = optional(bool)
            chunked_prefill         = optional(bool)
            reasoning_parser        = optional(string)
            tool_call_parser        = optional(string)
            adapters = optional(object({
              max_loaded = optional(number)
              max_cached = optional(number)
              max_rank   = optional(number)
            }))
          }))
          sglang = optional(object({
            container_version       = optional(string)
            context_length          = optional(number)
            max_concurrent_requests = optional(number)
            prefix_caching          = optional(bool)
            chunked_prefill         = optional(bool)
            reasoning_parser        = optional(string)
            tool_call_parser        = optional(string)
            adapters = optional(object({
              max_loaded = optional(number)
              max_cached = optional(number)
              max_rank   = optional(number)
            }))
          }))
          lmi = optional(object({
            container_version       = optional(string)
            context_length          = optional(number)
            max_concurrent_requests = optional(number)
            prefix_caching          = optional(bool)
            chunked_prefill         = optional(bool)
            reasoning_parser        = optional(string)
            tool_call_parser        = optional(string)
            adapters = optional(object({
              max_loaded = optional(number)
              max_cached = optional(number)
              max_rank   = optional(number)
            }))
          }))
          text_generation_inference = optional(object({ container_version = optional(string) }))
        }))
      })))
      accelerators = optional(number)
      server = optional(object({
        vllm = optional(object({
          container_version       = optional(string)
          context_length          = optional(number)
          max_concurrent_requests = optional(number)
          prefix_caching          = optional(bool)
          chunked_prefill         = optional(bool)
          reasoning_parser        = optional(string)
          tool_call_parser        = optional(string)
          adapters = optional(object({
            max_loaded = optional(number)
            max_cached = optional(number)
            max_rank   = optional(number)
          }))
        }))
        sglang = optional(object({
          container_version       = optional(string)
          context_length          = optional(number)
          max_concurrent_requests = optional(number)
          prefix_caching          = optional(bool)
          chunked_prefill         = optional(bool)
          reasoning_parser        = optional(string)
          tool_call_parser        = optional(string)
          adapters = optional(object({
            max_loaded = optional(number)
            max_cached = optional(number)
            max_rank   = optional(number)
          }))
        }))
        lmi = optional(object({
          container_version       = optional(string)
          context_length          = optional(number)
          max_concurrent_requests = optional(number)
          prefix_caching          = optional(bool)
          chunked_prefill         = optional(bool)
          reasoning_parser        = optional(string)
          tool_call_parser        = optional(string)
          adapters = optional(object({
            max_loaded = optional(number)
            max_cached = optional(number)
            max_rank   = optional(number)
          }))
        }))
        text_generation_inference = optional(object({ container_version = optional(string) }))
      }))
      artifact_key = optional(string)
      copies       = optional(number)
      environment  = optional(map(string))
      memory       = optional(string)
      options = optional(object({
        cpu_cores  = optional(number)
        max_memory = optional(string)
        caching    = optional(bool)
        placement = optional(object({
          spread  = optional(object({ max_zone_imbalance = optional(number) }))
          binpack = optional(object({ max_zone_imbalance = optional(number) }))
        }))
        accelerator_partition = optional(string)
      }))
      component_name = optional(string)
      existing_model = optional(string)
      adapters       = optional(map(object({ artifact_uri = string, adapter_name = optional(string) })))
      scaling = optional(object({
        max_capacity = optional(number)
        min_capacity = optional(number)
        on_concurrency = optional(object({
          target             = optional(number)
          policy_name        = optional(string)
          scale_in_cooldown  = optional(string)
          scale_out_cooldown = optional(string)
          disable_scale_in   = optional(bool)
        }))
        on_invocations = optional(object({
          target             = optional(number)
          request_seconds    = optional(number)
          policy_name        = optional(string)
          scale_in_cooldown  = optional(string)
          scale_out_cooldown = optional(string)
          disable_scale_in   = optional(bool)
        }))
        on_backlog = optional(object({
          target             = optional(number)
          policy_name        = optional(string)
          scale_in_cooldown  = optional(string)
          scale_out_cooldown = optional(string)
          disable_scale_in   = optional(bool)
        }))
        on_time_to_first_token = optional(object({
          target             = number
          quantile           = optional(number)
          policy_name        = optional(string)
          scale_in_cooldown  = optional(string)
          scale_out_cooldown = optional(string)
          disable_scale_in   = optional(bool)
        }))
        on_kv_cache = optional(object({
          target             = number
          policy_name        = optional(string)
          scale_in_cooldown  = optional(string)
          scale_out_cooldown = optional(string)
          disable_scale_in   = optional(bool)
        }))
        on_queue = optional(object({
          target             = number
          policy_name        = optional(string)
          scale_in_cooldown  = optional(string)
          scale_out_cooldown = optional(string)
          disable_scale_in   = optional(bool)
        }))
        on_tokens_per_second = optional(object({
          target             = number
          policy_name        = optional(string)
          scale_in_cooldown  = optional(string)
          scale_out_cooldown = optional(string)
          disable_scale_in   = optional(bool)
        }))
        on_metric = optional(map(object({
          metric             = string
          target             = number
          policy_name        = optional(string)
          scale_in_cooldown  = optional(string)
          scale_out_cooldown = optional(string)
          disable_scale_in   = optional(bool)
        })))
        on_steps = optional(map(object({
          metric                   = string
          steps                    = list(object({ change = number, lower = optional(number), upper = optional(number) }))
          adjustment               = optional(string)
          cooldown                 = optional(string)
          min_adjustment_magnitude = optional(number)
          evaluation_periods       = optional(number)
          datapoints_to_alarm      = optional(number)
        })))
        on_schedule = optional(map(object({
          schedule     = string
          min_capacity = optional(number)
          max_capacity = optional(number)
          time_zone    = optional(string)
          start        = optional(string)
          end          = optional(string)
        })))
        stop_on = optional(object({
          schedule  = string
          id        = optional(string)
          time_zone = optional(string)
          start     = optional(string)
          end       = optional(string)
        }))
        start_on = optional(object({
          schedule     = string
          id           = optional(string)
          min_capacity = optional(number)
          max_capacity = optional(number)
          time_zone    = optional(string)
          start        = optional(string)
          end          = optional(string)
        }))
      }))
      evaluations = optional(map(object({
        workload = optional(object({
          concurrency             = optional(list(number))
          input_tokens            = optional(number)
          input_tokens_stddev     = optional(number)
          output_tokens           = optional(number)
          output_tokens_stddev    = optional(number)
          prompts                 = optional(string)
          requests                = optional(number)
          duration_seconds        = optional(number)
          warmup_requests         = optional(number)
          tokenizer               = optional(string)
          token_secret_arn        = optional(string)
          request_timeout_seconds = optional(number)
          seed                    = optional(number)
        }))
        after_deployment        = optional(bool)
        schedule                = optional(string)
        baseline                = optional(object({ label = string, served = string, instance_price_per_hour = optional(number) }))
        instance_price_per_hour = optional(number)
        discount                = optional(number)
        timeout                 = optional(string)
        require = optional(object({
          at_concurrency     = optional(number)
          max_regression     = optional(number)
          regression_metrics = optional(list(string))
          quality = optional(object({
            prompts        = string
            min_identical  = optional(number)
            max_difference = optional(number)
            max_tokens     = optional(number)
            most_prompts   = optional(number)
          }))
          forecast                             = optional(bool)
          mean_ttft_ms                         = optional(number)
          p50_ttft_ms                          = optional(number)
          p90_ttft_ms                          = optional(number)
          p99_ttft_ms                          = optional(number)
          mean_itl_ms                          = optional(number)
          p50_itl_ms                           = optional(number)
          p90_itl_ms                           = optional(number)
          p99_itl_ms                           = optional(number)
          mean_client_latency_ms               = optional(number)
          p50_client_latency_ms                = optional(number)
          p90_client_latency_ms                = optional(number)
          p99_client_latency_ms                = optional(number)
          min_output_tokens_per_second         = optional(number)
          min_total_throughput                 = optional(number)
          min_acceptance_length                = optional(number)
          max_error_rate                       = optional(number)
          max_price_per_million_input_tokens   = optional(number)
          max_price_per_million_output_tokens  = optional(number)
          max_blended_price_per_million_tokens = optional(number)
        }))
      })))
    })))
    scaling = optional(object({
      max_capacity = optional(number)
      min_capacity = optional(number)
      on_concurrency = optional(object({
        target             = optional(number)
        policy_name        = optional(string)
        scale_in_cooldown  = optional(string)
        scale_out_cooldown = optional(string)
        disable_scale_in   = optional(bool)
      }))
      on_invocations = optional(object({
        target             = optional(number)
        request_seconds    = optional(number)
        policy_name        = optional(string)
        scale_in_cooldown  = optional(string)
        scale_out_cooldown = optional(string)
        disable_scale_in   = optional(bool)
      }))
      on_backlog = optional(object({
        target             = optional(number)
        policy_name        = optional(string)
        scale_in_cooldown  = optional(string)
        scale_out_cooldown = optional(string)
        disable_scale_in   = optional(bool)
      }))
      on_time_to_first_token = optional(object({
        target             = number
        quantile           = optional(number)
        policy_name        = optional(string)
        scale_in_cooldown  = optional(string)
        scale_out_cooldown = optional(string)
        disable_scale_in   = optional(bool)
      }))
      on_kv_cache = optional(object({
        target             = number
        policy_name        = optional(string)
        scale_in_cooldown  = optional(string)
        scale_out_cooldown = optional(string)
        disable_scale_in   = optional(bool)
      }))
      on_queue = optional(object({
        target             = number
        policy_name        = optional(string)
        scale_in_cooldown  = optional(string)
        scale_out_cooldown = optional(string)
        disable_scale_in   = optional(bool)
      }))
      on_tokens_per_second = optional(object({
        target             = number
        policy_name        = optional(string)
        scale_in_cooldown  = optional(string)
        scale_out_cooldown = optional(string)
        disable_scale_in   = optional(bool)
      }))
      on_metric = optional(map(object({
        metric             = string
        target             = number
        policy_name        = optional(string)
        scale_in_cooldown  = optional(string)
        scale_out_cooldown = optional(string)
        disable_scale_in   = optional(bool)
      })))
      on_steps = optional(map(object({
        metric                   = string
        steps                    = list(object({ change = number, lower = optional(number), upper = optional(number) }))
        adjustment               = optional(string)
        cooldown                 = optional(string)
        min_adjustment_magnitude = optional(number)
        evaluation_periods       = optional(number)
        datapoints_to_alarm      = optional(number)
      })))
      on_schedule = optional(map(object({
        schedule     = string
        min_capacity = optional(number)
        max_capacity = optional(number)
        time_zone    = optional(string)
        start        = optional(string)
        end          = optional(string)
      })))
      stop_on = optional(object({
        schedule  = string
        id        = optional(string)
        time_zone = optional(string)
        start     = optional(string)
        end       = optional(string)
      }))
      start_on = optional(object({
        schedule     = string
        id           = optional(string)
        min_capacity = optional(number)
        max_capacity = optional(number)
        time_zone    = optional(string)
        start        = optional(string)
        end          = optional(string)
      }))
    }))
    evaluations = optional(map(object({
      workload = optional(object({
        concurrency             = optional(list(number))
        input_tokens            = optional(number)
        input_tokens_stddev     = optional(number)
        output_tokens           = optional(number)
        output_tokens_stddev    = optional(number)
        prompts                 = optional(string)
        requests                = optional(number)
        duration_seconds        = optional(number)
        warmup_requests         = optional(number)
        tokenizer               = optional(string)
        token_secret_arn        = optional(string)
        request_timeout_seconds = optional(number)
        seed                    = optional(number)
      }))
      after_deployment        = optional(bool)
      schedule                = optional(string)
      baseline                = optional(object({ label = string, served = string, instance_price_per_hour = optional(number) }))
      instance_price_per_hour = optional(number)
      discount                = optional(number)
      timeout                 = optional(string)
      require = optional(object({
        at_concurrency     = optional(number)
        max_regression     = optional(number)
        regression_metrics = optional(list(string))
        quality = optional(object({
          prompts        = string
          min_identical  = optional(number)
          max_difference = optional(number)
          max_tokens     = optional(number)
          most_prompts   = optional(number)
        }))
        forecast                             = optional(bool)
        mean_ttft_ms                         = optional(number)
        p50_ttft_ms                          = optional(number)
        p90_ttft_ms                          = optional(number)
        p99_ttft_ms                          = optional(number)
        mean_itl_ms                          = optional(number)
        p50_itl_ms                           = optional(number)
        p90_itl_ms                           = optional(number)
        p99_itl_ms                           = optional(number)
        mean_client_latency_ms               = optional(number)
        p50_client_latency_ms                = optional(number)
        p90_client_latency_ms                = optional(number)
        p99_client_latency_ms                = optional(number)
        min_output_tokens_per_second         = optional(number)
        min_total_throughput                 = optional(number)
        min_acceptance_length                = optional(number)
        max_error_rate                       = optional(number)
        max_price_per_million_input_tokens   = optional(number)
        max_price_per_million_output_tokens  = optional(number)
        max_blended_price_per_million_tokens = optional(number)
      }))
    })))
    shadow = optional(object({
      candidate = object({
        techniques = optional(list(object({
          compilation = optional(object({
            neuron = optional(object({
              tensor_parallel_degree  = optional(number)
              dtype                   = optional(string)
              maximum_batch_size      = optional(number)
              optimize_level          = optional(number)
              maximum_sequence_length = optional(number)
            }))
            tensorrt_llm = optional(object({
              tensor_parallel_degree = optional(number)
              maximum_input_length   = optional(number)
              maximum_output_length  = optional(number)
              maximum_batch_size     = optional(number)
            }))
          }))
          kv_cache = optional(object({
            fp8 = optional(object({ tensor_parallel_degree = optional(number) }))
          }))
          quantization = optional(object({
            awq = optional(object({
              tensor_parallel_degree = optional(number)
              checkpoint = optional(object({
                huggingface = optional(object({
                  model_id           = string
                  revision           = optional(string)
                  token_secret_arn   = optional(string)
                  encryption_key_arn = optional(string)
                  allow_pickle       = optional(bool)
                  allow_code         = optional(bool)
                  compute = optional(object({
                    instance_type      = optional(string)
                    instance_count     = optional(number)
                    volume_size_gb     = optional(number)
                    spot               = optional(bool)
                    spot_wait_seconds  = optional(number)
                    keep_alive_seconds = optional(number)
                    environment        = optional(map(string))
                  }))
                }))
                jumpstart = optional(object({
                  model_id    = string
                  version     = optional(string)
                  accept_eula = optional(bool)
                }))
                s3 = optional(object({
                  uri                = string
                  accept_eula        = optional(bool)
                  encryption_key_arn = optional(string)
                  manifest_uri       = optional(string)
                  manifest_etag      = optional(string)
                }))
              }))
              group_size     = optional(number)
              ignored_layers = optional(list(string))
            }))
            fp8 = optional(object({
              tensor_parallel_degree = optional(number)
              checkpoint = optional(object({
                huggingface = optional(object({
                  model_id           = string
                  revision           = optional(string)
                  token_secret_arn   = optional(string)
                  encryption_key_arn = optional(string)
                  allow_pickle       = optional(bool)
                  allow_code         = optional(bool)
                  compute = optional(object({
                    instance_type      = optional(string)
                    instance_count     = optional(number)
                    volume_size_gb     = optional(number)
                    spot               = optional(bool)
                    spot_wait_seconds  = optional(number)
                    keep_alive_seconds = optional(number)
                    environment        = optional(map(string))
                  }))
                }))
                jumpstart = optional(object({
                  model_id    = string
                  version     = optional(string)
                  accept_eula = optional(bool)
                }))
                s3 = optional(object({
                  uri                = string
                  accept_eula        = optional(bool)
                  encryption_key_arn = optional(string)
                  manifest_uri       = optional(string)
                  manifest_etag      = optional(string)
                }))
              }))
              scheme             = optional(string)
              ignored_layers     = optional(list(string))
              calibration_size   = optional(number)
              calibration_length = optional(number)
            }))
            smoothquant = optional(object({
              tensor_parallel_degree = optional(number)
              checkpoint = optional(object({
                huggingface = optional(object({
                  model_id           = string
                  revision           = optional(string)
                  token_secret_arn   = optional(string)
                  encryption_key_arn = optional(string)
                  allow_pickle       = optional(bool)
                  allow_code         = optional(bool)
                  compute = optional(object({
                    instance_type      = optional(string)
                    instance_count     = optional(number)
                    volume_size_gb     = optional(number)
                    spot               = optional(bool)
                    spot_wait_seconds  = optional(number)
                    keep_alive_seconds = optional(number)
                    environment        = optional(map(string))
                  }))
                }))
                jumpstart = optional(object({
                  model_id    = string
                  version     = optional(string)
                  accept_eula = optional(bool)
                }))
                s3 = optional(object({
                  uri                = string
                  accept_eula        = optional(bool)
                  encryption_key_arn = optional(string)
                  manifest_uri       = optional(string)
                  manifest_etag      = optional(string)
                }))
              }))
              alpha            = optional(number)
              per_token        = optional(bool)
              per_channel      = optional(bool)
              calibration_size = optional(number)
            }))
            fp8_block = optional(object({
              tensor_parallel_degree = optional(number)
              compute = optional(object({
                instance_type      = optional(string)
                instance_count     = optional(number)
                volume_size_gb     = optional(number)
                spot               = optional(bool)
                spot_wait_seconds  = optional(number)
                keep_alive_seconds = optional(number)
                environment        = optional(map(string))
              }))
              checkpoint = optional(object({
                huggingface = optional(object({
                  model_id           = string
                  revision           = optional(string)
                  token_secret_arn   = optional(string)
                  encryption_key_arn = optional(string)
                  allow_pickle       = optional(bool)
                  allow_code         = optional(bool)
                  compute = optional(object({
                    instance_type      = optional(string)
                    instance_count     = optional(number)
                    volume_size_gb     = optional(number)
                    spot               = optional(bool)
                    spot_wait_seconds  = optional(number)
                    keep_alive_seconds = optional(number)
                    environment        = optional(map(string))
                  }))
                }))
                jumpstart = optional(object({
                  model_id    = string
                  version     = optional(string)
                  accept_eula = optional(bool)
                }))
                s3 = optional(object({
                  uri                = string
                  accept_eula        = optional(bool)
                  encryption_key_arn = optional(string)
                  manifest_uri       = optional(string)
                  manifest_etag      = optional(string)
                }))
              }))
              ignored_layers = optional(list(string))
            }))
            fp8_dynamic = optional(object({
              tensor_parallel_degree = optional(number)
              compute = optional(object({
                instance_type      = optional(string)
                instance_count     = optional(number)
                volume_size_gb     = optional(number)
                spot               = optional(bool)
                spot_wait_seconds  = optional(number)
                keep_alive_seconds = optional(number)
                environment        = optional(map(string))
              }))
              checkpoint = optional(object({
                huggingface = optional(object({
                  model_id           = string
                  revision           = optional(string)
                  token_secret_arn   = optional(string)
                  encryption_key_arn = optional(string)
                  allow_pickle       = optional(bool)
                  allow_code         = optional(bool)
                  compute = optional(object({
                    instance_type      = optional(string)
                    instance_count     = optional(number)
                    volume_size_gb     = optional(number)
                    spot               = optional(bool)
                    spot_wait_seconds  = optional(number)
                    keep_alive_seconds = optional(number)
                    environment        = optional(map(string))
                  }))
                }))
                jumpstart = optional(object({
                  model_id    = string
                  version     = optional(string)
                  accept_eula = optional(bool)
                }))
                s3 = optional(object({
                  uri                = string
                  accept_eula        = optional(bool)
                  encryption_key_arn = optional(string)
                  manifest_uri       = optional(string)
                  manifest_etag      = optional(string)
                }))
              }))
              ignored_layers = optional(list(string))
            }))
            w4a16 = optional(object({
              tensor_parallel_degree = optional(number)
              compute = optional(object({
                instance_type      = optional(string)
                instance_count     = optional(number)
                volume_size_gb     = optional(number)
                spot               = optional(bool)
                spot_wait_seconds  = optional(number)
                keep_alive_seconds = optional(number)
                environment        = optional(map(string))
              }))
              checkpoint = optional(object({
                huggingface = optional(object({
                  model_id           = string
                  revision           = optional(string)
                  token_secret_arn   = optional(string)
                  encryption_key_arn = optional(string)
                  allow_pickle       = optional(bool)
                  allow_code         = optional(bool)
                  compute = optional(object({
                    instance_type      = optional(string)
                    instance_count     = optional(number)
                    volume_size_gb     = optional(number)
                    spot               = optional(bool)
                    spot_wait_seconds  = optional(number)
                    keep_alive_seconds = optional(number)
                    environment        = optional(map(string))
                  }))
                }))
                jumpstart = optional(object({
                  model_id    = string
                  version     = optional(string)
                  accept_eula = optional(bool)
                }))
                s3 = optional(object({
                  uri                = string
                  accept_eula        = optional(bool)
                  encryption_key_arn = optional(string)
                  manifest_uri       = optional(string)
                  manifest_etag      = optional(string)
                }))
              }))
              ignored_layers     = optional(list(string))
              calibration_data   = optional(string)
              calibration_size   = optional(number)
              calibration_length = optional(number)
              algorithm          = optional(string)
            }))
            nvfp4 = optional(object({
              tensor_parallel_degree = optional(number)
              compute = optional(object({
                instance_type      = optional(string)
                instance_count     = optional(number)
                volume_size_gb     = optional(number)
                spot               = optional(bool)
                spot_wait_seconds  = optional(number)
                keep_alive_seconds = optional(number)
                environment        = optional(map(string))
              }))
              checkpoint = optional(object({
                huggingface = optional(object({
                  model_id           = string
                  revision           = optional(string)
                  token_secret_arn   = optional(string)
                  encryption_key_arn = optional(string)
                  allow_pickle       = optional(bool)
                  allow_code         = optional(bool)
                  compute = optional(object({
                    instance_type      = optional(string)
                    instance_count     = optional(number)
                    volume_size_gb     = optional(number)
                    spot               = optional(bool)
                    spot_wait_seconds  = optional(number)
                    keep_alive_seconds = optional(number)
                    environment        = optional(map(string))
                  }))
                }))
                jumpstart = optional(object({
                  model_id    = string
                  version     = optional(string)
                  accept_eula = optional(bool)
                }))
                s3 = optional(object({
                  uri                = string
                  accept_eula        = optional(bool)
                  encryption_key_arn = optional(string)
                  manifest_uri       = optional(string)
                  manifest_etag      = optional(string)
                }))
              }))
              ignored_layers     = optional(list(string))
              calibration_data   = optional(string)
              calibration_size   = optional(number)
              calibration_length = optional(number)
            }))
            mxfp4 = optional(object({
              tensor_parallel_degree = optional(number)
              compute = optional(object({
                instance_type      = optional(string)
                instance_count     = optional(number)
                volume_size_gb     = optional(number)
                spot               = optional(bool)
                spot_wait_seconds  = optional(number)
                keep_alive_seconds = optional(number)
                environment        = optional(map(string))
              }))
              checkpoint = optional(object({
                huggingface = optional(object({
                  model_id           = string
                  revision           = optional(string)
                  token_secret_arn   = optional(string)
                  encryption_key_arn = optional(string)
                  allow_pickle       = optional(bool)
                  allow_code         = optional(bool)
                  compute = optional(object({
                    instance_type      = optional(string)
                    instance_count     = optional(number)
                    volume_size_gb     = optional(number)
                    spot               = optional(bool)
                    spot_wait_seconds  = optional(number)
                    keep_alive_seconds = optional(number)
                    environment        = optional(map(string))
                  }))
                }))
                jumpstart = optional(object({
                  model_id    = string
                  version     = optional(string)
                  accept_eula = optional(bool)
                }))
                s3 = optional(object({
                  uri                = string
                  accept_eula        = optional(bool)
                  encryption_key_arn = optional(string)
                  manifest_uri       = optional(string)
                  manifest_etag      = optional(string)
                }))
              }))
              ignored_layers = optional(list(string))
            }))
          }))
          sharding = optional(object({
            fast_load = optional(object({ tensor_parallel_degree = optional(number) }))
          }))
          speculative_decoding = optional(object({
            sagemaker_draft = optional(object({
              tensor_parallel_degree = optional(number)
              speculative_tokens     = optional(number)
            }))
            jumpstart_draft = optional(object({
              tensor_parallel_degree = optional(number)
              speculative_tokens     = optional(number)
              model_id               = string
              version                = optional(string)
              accept_eula            = optional(bool)
            }))
            custom_draft = optional(object({
              tensor_parallel_degree = optional(number)
              speculative_tokens     = optional(number)
              model = optional(object({
                huggingface = optional(object({
                  model_id           = string
                  revision           = optional(string)
                  token_secret_arn   = optional(string)
                  encryption_key_arn = optional(string)
                  allow_pickle       = optional(bool)
                  allow_code         = optional(bool)
                  compute = optional(object({
                    instance_type      = optional(string)
                    instance_count     = optional(number)
                    volume_size_gb     = optional(number)
                    spot               = optional(bool)
                    spot_wait_seconds  = optional(number)
                    keep_alive_seconds = optional(number)
                    environment        = optional(map(string))
                  }))
                }))
                jumpstart = optional(object({
                  model_id    = string
                  version     = optional(string)
                  accept_eula = optional(bool)
                }))
                s3 = optional(object({
                  uri                = string
                  accept_eula        = optional(bool)
                  encryption_key_arn = optional(string)
                  manifest_uri       = optional(string)
                  manifest_etag      = optional(string)
                }))
              }))
              uri         = optional(string)
              accept_eula = optional(bool)
            }))
            eagle = optional(object({
              tensor_parallel_degree = optional(number)
              training_data = optional(object({
                value              = optional(string)
                uri                = optional(string)
                period             = optional(string)
                requests           = optional(bool)
                responses          = optional(bool)
                encryption_key_arn = optional(string)
              }))
              speculative_tokens = optional(number)
            }))
            ngram = optional(object({
              tensor_parallel_degree = optional(number)
              speculative_tokens     = optional(number)
              prompt_lookup_max      = optional(number)
            }))
            speculator = optional(object({
              tensor_parallel_degree = optional(number)
              model = object({
                huggingface = optional(object({
                  model_id           = string
                  revision           = optional(string)
                  token_secret_arn   = optional(string)
                  encryption_key_arn = optional(string)
                  allow_pickle       = optional(bool)
                  allow_code         = optional(bool)
                  compute = optional(object({
                    instance_type      = optional(string)
                    instance_count     = optional(number)
                    volume_size_gb     = optional(number)
                    spot               = optional(bool)
                    spot_wait_seconds  = optional(number)
                    keep_alive_seconds = optional(number)
                    environment        = optional(map(string))
                  }))
                }))
                jumpstart = optional(object({
                  model_id    = string
                  version     = optional(string)
                  accept_eula = optional(bool)
                }))
                s3 = optional(object({
                  uri                = string
                  accept_eula        = optional(bool)
                  encryption_key_arn = optional(string)
                  manifest_uri       = optional(string)
                  manifest_etag      = optional(string)
                }))
              })
              method             = optional(string)
              speculative_tokens = optional(number)
            }))
            mtp = optional(object({ tensor_parallel_degree = optional(number), speculative_tokens = optional(number) }))
          }))
          pre_optimized = optional(object({
            tensor_parallel_degree = optional(number)
            config                 = optional(string)
            accept_draft_eula      = optional(bool)
          }))
          medusa = optional(object({
            tensor_parallel_degree = optional(number)
            compute = optional(object({
              instance_type      = optional(string)
              instance_count     = optional(number)
              volume_size_gb     = optional(number)
              spot               = optional(bool)
              spot_wait_seconds  = optional(number)
              keep_alive_seconds = optional(number)
              environment        = optional(map(string))
            }))
            training_data   = string
            validation_data = optional(string)
            hyperparameters = optional(map(string))
            heads           = optional(number)
            layers          = optional(number)
            base = optional(object({
              tensor_parallel_degree = optional(number)
              compute = optional(object({
                instance_type      = optional(string)
                instance_count     = optional(number)
                volume_size_gb     = optional(number)
                spot               = optional(bool)
                spot_wait_seconds  = optional(number)
                keep_alive_seconds = optional(number)
                environment        = optional(map(string))
              }))
              training_data   = string
              validation_data = optional(string)
              hyperparameters = optional(map(string))
              method          = optional(string)
            }))
          }))
          fine_tune = optional(object({
            tensor_parallel_degree = optional(number)
            compute = optional(object({
              instance_type      = optional(string)
              instance_count     = optional(number)
              volume_size_gb     = optional(number)
              spot               = optional(bool)
              spot_wait_seconds  = optional(number)
              keep_alive_seconds = optional(number)
              environment        = optional(map(string))
            }))
            training_data   = string
            validation_data = optional(string)
            hyperparameters = optional(map(string))
            method          = optional(string)
          }))
        })))
        model = optional(object({
          huggingface = optional(object({
            model_id           = string
            revision           = optional(string)
            token_secret_arn   = optional(string)
            encryption_key_arn = optional(string)
            allow_pickle       = optional(bool)
            allow_code         = optional(bool)
            compute = optional(object({
              instance_type      = optional(string)
              instance_count     = optional(number)
              volume_size_gb     = optional(number)
              spot               = optional(bool)
              spot_wait_seconds  = optional(number)
              keep_alive_seconds = optional(number)
              environment        = optional(map(string))
            }))
          }))
          jumpstart = optional(object({ model_id = string, version = optional(string), accept_eula = optional(bool) }))
          s3 = optional(object({
            uri                = string
            accept_eula        = optional(bool)
            encryption_key_arn = optional(string)
            manifest_uri       = optional(string)
            manifest_etag      = optional(string)
          }))
        }))
        instance_type  = optional(string)
        instance_count = optional(number)
        server = optional(object({
          vllm = optional(object({
            container_version       = optional(string)
            context_length          = optional(number)
            max_concurrent_requests = optional(number)
            prefix_caching          = optional(bool)
            chunked_prefill         = optional(bool)
            reasoning_parser        = optional(string)
            tool_call_parser        = optional(string)
            adapters = optional(object({
              max_loaded = optional(number)
              max_cached = optional(number)
              max_rank   = optional(number)
            }))
          }))
          sglang = optional(object({
            container_version       = optional(string)
            context_length          = optional(number)
            max_concurrent_requests = optional(number)
            prefix_caching          = optional(bool)
            chunked_prefill         = optional(bool)
            reasoning_parser        = optional(string)
            tool_call_parser        = optional(string)
            adapters = optional(object({
              max_loaded = optional(number)
              max_cached = optional(number)
              max_rank   = optional(number)
            }))
          }))
          lmi = optional(object({
            container_version       = optional(string)
            context_length          = optional(number)
            max_concurrent_requests = optional(number)
            prefix_caching          = optional(bool)
            chunked_prefill         = optional(bool)
            reasoning_parser        = optional(string)
            tool_call_parser        = optional(string)
            adapters = optional(object({
              max_loaded = optional(number)
              max_cached = optional(number)
              max_rank   = optional(number)
            }))
          }))
          text_generation_inference = optional(object({ container_version = optional(string) }))
        }))
        environment  = optional(map(string))
        artifact_key = optional(string)
      })
      checks = list(object({
        answered    = optional(object({}))
        json_valid  = optional(object({}))
        tool_calls  = optional(object({}))
        reference   = optional(object({ uri = string }))
        judge       = optional(object({ function_arn = string }))
        exact_match = optional(object({ at_least = number }))
        top_token   = optional(object({ at_least = number }))
      }))
      sample_percent    = optional(number)
      duration          = optional(string)
      margin            = optional(number)
      latency_tolerance = optional(number)
      promote           = optional(bool)
      topic             = optional(string)
      instance_quota    = optional(number)
    }))
    dashboard = optional(object({
      show_costs = optional(object({ instance_price_per_hour = number, discount = optional(number) }))
      show_evaluation = optional(list(object({
        concurrencies = list(number)
        baseline      = optional(object({ label = string, served = string, instance_price_per_hour = optional(number) }))
        label         = optional(string)
      })))
      add_deployment = optional(list(object({ at = string, label = optional(string) })))
    }))
    acknowledge = optional(list(object({ rule = string, reason = string })))
  }))
  default = null
}

variable "model_recommendations" {
  description = <<-EOT
    ModelRecommendation constructs by ID.

    - `model`: The model's files in S3: a Hugging Face checkpoint with safetensors weights.
    - `role`: The role that SageMaker assumes for the job. It gets the permissions in the developer guide ("Get generative AI inference deployment recommendations", prerequisites, and "Security in SageMaker AI inference optimization"): to read the model and the workload's prompts and secret, to write results, logs and metrics, and to run the training jobs, optimization jobs and endpoints of the service's benchmarks. If a job fails for another missing permission, its failure reason names it: grant it yourself. An imported, immutable role is not changed.
    - `workload`: The load to send. Default: synthetic prompts of 622 tokens, from 1, 8 and 32 users.
    - `optimize_for`: `cost`, `latency` (the time to the first token, the API's `ttft-ms`) or `throughput`. Default: cost.
    - `instance_types`: At most three instance types to try. Default: SageMaker chooses.
    - `framework`: `LMI` or `VLLM`. Default: SageMaker chooses.
    - `optimize_model`: Whether SageMaker may optimize the model, by speculative decoding or kernel tuning. Default: yes.
    - `artifact_store`: The store of the result, not a read-only one. Default: one store for the whole stack.
    - `capacity_reservations`: The only capacity reservations for the job's instances. Default: on demand.
    - `timeout`: The maximum wait of the deployment, up to 12 hours. Default: 12 hours.
    - `wait`: Whether the deployment waits for the result. Default: yes.
  EOT
  type = map(object({
    model = object({
      huggingface = optional(object({
        model_id           = string
        revision           = optional(string)
        token_secret_arn   = optional(string)
        encryption_key_arn = optional(string)
        allow_pickle       = optional(bool)
        allow_code         = optional(bool)
        compute = optional(object({
          instance_type      = optional(string)
          instance_count     = optional(number)
          volume_size_gb     = optional(number)
          spot               = optional(bool)
          spot_wait_seconds  = optional(number)
          keep_alive_seconds = optional(number)
          environment        = optional(map(string))
        }))
      }))
      jumpstart = optional(object({ model_id = string, version = optional(string), accept_eula = optional(bool) }))
      s3 = optional(object({
        uri                = string
        accept_eula        = optional(bool)
        encryption_key_arn = optional(string)
        manifest_uri       = optional(string)
        manifest_etag      = optional(string)
      }))
    })
    role = string
    workload = optional(object({
      concurrency             = optional(list(number))
      input_tokens            = optional(number)
      input_tokens_stddev     = optional(number)
      output_tokens           = optional(number)
      output_tokens_stddev    = optional(number)
      prompts                 = optional(string)
      requests                = optional(number)
      duration_seconds        = optional(number)
      warmup_requests         = optional(number)
      tokenizer               = optional(string)
      token_secret_arn        = optional(string)
      request_timeout_seconds = optional(number)
      seed                    = optional(number)
    }))
    optimize_for   = optional(string)
    instance_types = optional(list(string))
    framework      = optional(string)
    optimize_model = optional(bool)
    artifact_store = optional(object({
      value       = optional(string)
      from_bucket = optional(object({ bucket = string, encryption_key = optional(string), read_only = optional(bool) }))
    }))
    capacity_reservations = optional(list(object({ arn = string })))
    timeout               = optional(string)
    wait                  = optional(bool)
  }))
  default = null
}

variable "fleet_dashboards" {
  description = <<-EOT
    FleetDashboard constructs by ID.

    - `endpoints`: The endpoints to show, in this order; `add_endpoint` adds more.
    - `dashboard_name`: The dashboard's name. Default: CloudFormation generates one.
    - `discount`: The discount of a savings plan, as a share. Default: 0.
    - `add_endpoint`: Show one more endpoint.
  EOT
  type = map(object({
    endpoints      = optional(list(string))
    dashboard_name = optional(string)
    discount       = optional(number)
    add_endpoint = optional(list(object({
      endpoint                = string
      label                   = optional(string)
      instance_price_per_hour = optional(number)
    })))
  }))
  default = null
}

variable "policy" {
  description = "The platform policy, whose findings fail synthesis."
  type = object({
    allowed_instance_types     = optional(list(string))
    allowed_job_instance_types = optional(list(string))
    max_price_per_hour         = optional(number)
    max_monthly_cost           = optional(number)
    required_techniques        = optional(list(string))
    forbidden_techniques       = optional(list(string))
    accepted_licenses          = optional(list(string))
    pinned_model_versions      = optional(bool)
    kms_required               = optional(bool)
    vpc_required               = optional(bool)
    network_isolation_required = optional(bool)
    autoscaling_required       = optional(bool)
    alarm_actions_required     = optional(bool)
    evaluation_gate_required   = optional(bool)
    instance_prices            = optional(map(number))
    severities                 = optional(map(string))
    reasons                    = optional(map(string))
  })
  default = null
}

variable "acknowledge" {
  description = "Accepted findings of the stack."
  type        = list(object({ rule = string, reason = string }))
  default     = null
}

locals {
  # Sections and attributes that are not set are null.
  variables = {
    description           = var.description
    account               = var.account
    region                = var.region
    tags                  = var.tags
    outputs               = var.outputs
    artifact_stores       = var.artifact_stores
    optimization_jobs     = var.optimization_jobs
    optimized_artifacts   = var.optimized_artifacts
    endpoints             = var.endpoints
    model_recommendations = var.model_recommendations
    fleet_dashboards      = var.fleet_dashboards
    policy                = var.policy
    acknowledge           = var.acknowledge
  }

  # Objects for which their member `value` may stand.
  alternatives = "acceptance_decay|acceptance_length|alarms|artifact_store|disk|error_rate|failed_job|inference_component|kv_cache|latency|queue|saturation|stale_evaluation|time_to_first_token|training_data|zero_capacity"
}
