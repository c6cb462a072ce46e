// Names that nobody can guess.
#pragma once

#include <string>

namespace ddprun::host {

/// 128 random bits as 32 hexadecimal digits.
std::string random_name();

}  // namespace ddprun::host
