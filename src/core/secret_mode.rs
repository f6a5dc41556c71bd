//! Whether a file may hold a secret, judged by its permissions.

/// Where systemd puts the credentials of a service. It grants them by an access
/// list, whose mask shows as the read bit of the group.
pub const SYSTEMD_CREDENTIALS: &str = "/run/credentials";

/// Whether nobody but its owner has access to a file of this Unix mode.
pub const fn is_private(mode: u32, is_systemd_credential: bool) -> bool {
    let others = if is_systemd_credential { 0o037 } else { 0o077 };
    mode & others == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_for_its_owner_and_for_a_credential_the_group_bit_is_a_mask() {
        for (mode, as_file, as_credential) in [
            (0o600, true, true),
            (0o100_400, true, true),
            (0o700, true, true),
            (0o440, false, true),
            (0o640, false, true),
            (0o660, false, false),
            (0o650, false, false),
            (0o604, false, false),
        ] {
            assert_eq!(is_private(mode, false), as_file, "{mode:o}");
            assert_eq!(is_private(mode, true), as_credential, "{mode:o}");
        }
    }
}
