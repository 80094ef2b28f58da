//! An X server of our own, and a client that looks at its screen and moves its keys and mouse.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use x11rb::connection::Connection;
use x11rb::protocol::Event;
use x11rb::protocol::xproto::{
    AtomEnum, BUTTON_PRESS_EVENT, BUTTON_RELEASE_EVENT, ChangeWindowAttributesAux, ClientMessageEvent,
    CloseDown, ConfigureWindowAux, ConnectionExt, CreateWindowAux, EventMask, ImageFormat, InputFocus,
    KEY_PRESS_EVENT, KEY_RELEASE_EVENT, MOTION_NOTIFY_EVENT, MapState, Window, WindowClass,
};
use x11rb::protocol::xtest::ConnectionExt as _;
use x11rb::rust_connection::RustConnection;

pub struct Xvfb {
    server: Child,
    pub display: String,
}

impl Xvfb {
    /// Start a server on a free display number; `Err` says why it cannot be.
    pub fn start() -> Result<Self, String> {
        Self::start_with(&["-noreset"])
    }

    /// One that starts afresh whenever its last client leaves.
    pub fn start_resetting() -> Result<Self, String> {
        Self::start_with(&[])
    }

    fn start_with(args: &[&str]) -> Result<Self, String> {
        let mut server = Command::new("Xvfb")
            .args(["-displayfd", "1", "-screen", "0", "1024x768x24", "-nolisten", "tcp"])
            .args(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|e| format!("Xvfb cannot be started: {e} (on Debian or Ubuntu: apt install xvfb)"))?;
        let mut number = String::new();
        let out = server.stdout.take().expect("piped");
        // Closed, hence empty, if the server ends without having found a display.
        let _ = BufReader::new(out).read_line(&mut number);
        let display = format!(":{}", number.trim());
        let started = Self { server, display };
        if number.trim().is_empty() {
            return Err("Xvfb ended before it served a display".into());
        }
        Ok(started)
    }

    /// Send the server a signal by name.
    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([format!("-{name}"), self.server.id().to_string()]).status();
        assert!(sent.expect("kill runs").success());
    }

    pub fn client(&self) -> Client {
        let (connection, screen) = x11rb::connect(Some(&self.display)).expect("the server answers");
        let root = connection.setup().roots[screen].root;
        Client { connection, root }
    }
}

impl Drop for Xvfb {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// The name of an atom.
const MARK: &[u8] = b"FRAMELANE_WINDOW_TEST";

pub struct Client {
    connection: RustConnection,
    root: Window,
}

/// u8, height × width × 3.
#[derive(PartialEq)]
pub struct Shot {
    pub width: usize,
    pub height: usize,
    pub rgb: Vec<u8>,
}

impl Client {
    /// The window of the program under test, once it can be seen.
    pub fn find(&self) -> Option<Window> {
        let tree = self.connection.query_tree(self.root).ok()?.reply().ok()?;
        tree.children.into_iter().find(|&window| {
            let class = self
                .connection
                .get_property(false, window, AtomEnum::WM_CLASS, AtomEnum::STRING, 0, 64)
                .ok()
                .and_then(|cookie| cookie.reply().ok());
            class.is_some_and(|class| class.value.starts_with(b"framelane\0")) && self.is_viewable(window)
        })
    }

    fn is_viewable(&self, window: Window) -> bool {
        let attributes =
            self.connection.get_window_attributes(window).ok().and_then(|cookie| cookie.reply().ok());
        attributes.is_some_and(|attributes| attributes.map_state == MapState::VIEWABLE)
    }

    /// Give the server something to remember until it starts afresh, and leave without making it do so.
    pub fn leave_a_mark(self) {
        self.connection.intern_atom(false, MARK).unwrap().reply().unwrap();
        self.connection.set_close_down_mode(CloseDown::RETAIN_PERMANENT).unwrap();
        self.sync();
    }

    pub fn sees_the_mark(&self) -> bool {
        self.connection.intern_atom(true, MARK).unwrap().reply().unwrap().atom != x11rb::NONE
    }

    pub fn title(&self, window: Window) -> String {
        let atom = |name: &[u8]| self.connection.intern_atom(false, name).unwrap().reply().unwrap().atom;
        let (name, utf8) = (atom(b"_NET_WM_NAME"), atom(b"UTF8_STRING"));
        let reply = self.connection.get_property(false, window, name, utf8, 0, 256).unwrap().reply().unwrap();
        String::from_utf8(reply.value).unwrap()
    }

    /// What the root window shows where `window` lies: what a person would see there.
    pub fn shot(&self, window: Window) -> Option<Shot> {
        let shape = self.connection.get_geometry(window).ok()?.reply().ok()?;
        let image = self
            .connection
            .get_image(ImageFormat::Z_PIXMAP, self.root, shape.x, shape.y, shape.width, shape.height, !0)
            .ok()?
            .reply()
            .ok()?;
        let rgb = image.data.chunks_exact(4).flat_map(|p| [p[2], p[1], p[0]]).collect();
        Some(Shot { width: shape.width.into(), height: shape.height.into(), rgb })
    }

    /// Without a window manager nobody else gives the window the keyboard.
    pub fn focus(&self, window: Window) {
        self.connection.set_input_focus(InputFocus::PARENT, window, x11rb::CURRENT_TIME).unwrap();
        self.sync();
    }

    pub fn press(&self, keysym: u32) {
        let setup = self.connection.setup();
        let (first, last) = (setup.min_keycode, setup.max_keycode);
        let map = self.connection.get_keyboard_mapping(first, last - first + 1).unwrap().reply().unwrap();
        let per = usize::from(map.keysyms_per_keycode);
        let at = map.keysyms.chunks(per).position(|syms| syms[0] == keysym).expect("the key exists");
        let code = first + at as u8;
        for kind in [KEY_PRESS_EVENT, KEY_RELEASE_EVENT] {
            self.connection.xtest_fake_input(kind, code, 0, self.root, 0, 0, 0).unwrap();
        }
        self.sync();
    }

    pub fn key(&self, letter: char) {
        self.press(letter.into());
    }

    /// Move the mouse to a point of the window.
    pub fn mouse(&self, window: Window, x: i16, y: i16) {
        let at = self.connection.translate_coordinates(window, self.root, x, y).unwrap().reply().unwrap();
        self.connection
            .xtest_fake_input(MOTION_NOTIFY_EVENT, 0, 0, self.root, at.dst_x, at.dst_y, 0)
            .unwrap();
        self.sync();
    }

    pub fn button(&self, down: bool) {
        let kind = if down { BUTTON_PRESS_EVENT } else { BUTTON_RELEASE_EVENT };
        self.connection.xtest_fake_input(kind, 1, 0, self.root, 0, 0, 0).unwrap();
        self.sync();
    }

    /// One step of the wheel, away from the user.
    pub fn wheel(&self) {
        for kind in [BUTTON_PRESS_EVENT, BUTTON_RELEASE_EVENT] {
            self.connection.xtest_fake_input(kind, 4, 0, self.root, 0, 0, 0).unwrap();
        }
        self.sync();
    }

    pub fn resize(&self, window: Window, width: u32, height: u32) {
        let aux = ConfigureWindowAux::new().width(width).height(height);
        self.connection.configure_window(window, &aux).unwrap();
        self.sync();
    }

    pub fn map(&self, window: Window, visible: bool) {
        if visible {
            self.connection.map_window(window).unwrap();
        } else {
            self.connection.unmap_window(window).unwrap();
        }
        self.sync();
    }

    /// Put a window of our own before all others; gone with this client.
    pub fn cover(&self) {
        let setup = self.connection.setup();
        let window = self.connection.generate_id().unwrap();
        let aux = CreateWindowAux::new().override_redirect(1).background_pixel(setup.roots[0].white_pixel);
        self.connection
            .create_window(0, window, self.root, 0, 0, 1024, 768, 0, WindowClass::INPUT_OUTPUT, 0, &aux)
            .unwrap();
        self.map(window, true);
    }

    /// From now on this client hears what is asked of window managers.
    pub fn listen_as_window_manager(&self) {
        let aux = ChangeWindowAttributesAux::new().event_mask(EventMask::SUBSTRUCTURE_NOTIFY);
        self.connection.change_window_attributes(self.root, &aux).unwrap();
        self.sync();
    }

    /// The next request that a window be full screen (`true`) or no longer be, if one has come.
    pub fn full_screen_asked(&self) -> Option<bool> {
        let atom = |name: &[u8]| self.connection.intern_atom(false, name).unwrap().reply().unwrap().atom;
        let (state, full) = (atom(b"_NET_WM_STATE"), atom(b"_NET_WM_STATE_FULLSCREEN"));
        while let Some(event) = self.connection.poll_for_event().unwrap() {
            if let Event::ClientMessage(asked) = event
                && asked.type_ == state
                && let [action, first, second, ..] = asked.data.as_data32()
                && [first, second].contains(&full)
            {
                return Some(action == 1);
            }
        }
        None
    }

    /// What a window manager sends when the close button is clicked.
    pub fn click_close(&self, window: Window) {
        let atom = |name: &[u8]| self.connection.intern_atom(false, name).unwrap().reply().unwrap().atom;
        let (protocols, delete) = (atom(b"WM_PROTOCOLS"), atom(b"WM_DELETE_WINDOW"));
        let event = ClientMessageEvent::new(32, window, protocols, [delete, x11rb::CURRENT_TIME, 0, 0, 0]);
        self.connection.send_event(false, window, EventMask::NO_EVENT, event).unwrap();
        self.sync();
    }

    fn sync(&self) {
        self.connection.get_input_focus().unwrap().reply().unwrap();
    }
}
