// What all ranks of a run and all its attempts have to have in common.
#pragma once

#include "trainers/gpt2/options.hpp"
#include "trainers/gpt2/token_file.hpp"
#include <ddprun/process_group.hpp>
#include <ddprun/worker_env.hpp>

#include <nlohmann/json_fwd.hpp>

#include <span>
#include <string>

namespace trainer::gpt2 {

/// An object: name and value of settings. Options have their names, without dashes.
using Settings = nlohmann::json;

/// Every setting on which the parameters depend, bit for bit; a resumed run has the same.
Settings settings_of(const Options& options, const ddprun::WorkerEnv& env, const TokenFile& data);

/// Every setting that has to be the same on all ranks of a run: those above, and those by which
/// they call the same collectives. `test_data` is null if there are none.
Settings common_settings(const Options& options, const ddprun::WorkerEnv& env,
                         const TokenFile& data, const TokenFile* test_data);

/// "--lr", "the number of workers".
std::string name_for_people(const std::string& setting);

std::string text_of(const Settings& value);

/// "--seed is 0 on ranks 0, 2 and 7 on rank 1", of each setting in which the ranks differ; empty if
/// they do not.
std::string describe_differences(std::span<const Settings> ranks);

/// Throws the same Error{Errc::usage} on all ranks, with describe_differences(), if their settings
/// differ. All ranks must call it. Blocks.
void require_same_settings(ddprun::ProcessGroup& group, const Settings& own);

}  // namespace trainer::gpt2
