// Program formats that the kernel executes by a registered interpreter (binfmt_misc), such as
// programs of other architectures by an emulator.
#pragma once

#include <filesystem>
#include <string>

namespace ddprun {

/// Returns true if the kernel executes a file of this name, whose content begins with `head`, for
/// an entry with this text in binfmt_misc.
bool is_executed_by(const std::string& entry, const std::string& name, const std::string& head);

/// Returns true if an entry in `folder` executes the file. An entry that cannot be read does.
bool has_other_format(const std::filesystem::path& file, const std::string& head,
                      const std::filesystem::path& folder = "/proc/sys/fs/binfmt_misc");

}  // namespace ddprun
