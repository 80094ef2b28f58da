//! Libraries of the system that are there or not, and their functions.

use libloading::Library;
use std::ffi::CStr;

/// A library by its first name that loads. The process keeps it: drivers do not bear being unloaded.
pub(super) fn open(names: &[&str]) -> Option<&'static Library> {
    // SAFETY: the system's own libraries of OpenGL and of its windows, whose initialisers every such program runs.
    let load = |name: &&str| unsafe { Library::new(name) }.ok();
    let library: &'static Library = Box::leak(Box::new(names.iter().find_map(load)?));
    Some(library)
}

/// # Safety
/// `F` is the type of the function of this name.
pub(super) unsafe fn look_up<F: Copy>(library: &Library, name: &CStr) -> Option<F> {
    // SAFETY: the caller vouches for the type.
    unsafe { library.get::<F>(name.to_bytes_with_nul()) }.ok().map(|symbol| *symbol)
}

/// Pointers to functions of one library, looked up together: all are there, or the system is not.
macro_rules! functions {
    ($table:ident of $names:expr; $($name:ident($($arg:ty),*) $(-> $out:ty)?;)*) => {
        #[allow(non_snake_case, reason = "the system's names")]
        struct $table { $($name: unsafe extern "system" fn($($arg),*) $(-> $out)?,)* }

        impl $table {
            fn get() -> Option<&'static Self> {
                static TABLE: std::sync::OnceLock<Option<$table>> = std::sync::OnceLock::new();
                TABLE.get_or_init(|| {
                    let library = crate::gl::raw::library::open($names)?;
                    Some(Self {
                        $($name: {
                            let name = concat!(stringify!($name), "\0");
                            let name = std::ffi::CStr::from_bytes_with_nul(name.as_bytes()).ok()?;
                            // SAFETY: the table has the types of the system's headers.
                            unsafe { crate::gl::raw::library::look_up(library, name) }?
                        },)*
                    })
                }).as_ref()
            }
        }
    };
}
pub(super) use functions;
